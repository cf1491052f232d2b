"""Publishing: rehearse, measure once and write; or count here and publish elsewhere.

Trust: a mistake here can measure without a charge, charge twice, or lose a release that was charged.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, final

import numpy as np

from fitnoise.engines import open_counter
from fitnoise.engines.databases import ENVIRONMENT, database, is_database
from fitnoise.engines.spark import is_spark
from fitnoise.engines.views import ROW_WISE, FoundView
from fitnoise.errors import DataError, FitnoiseError, LedgerError, PlanError, ReleaseError, is_interruption
from fitnoise.kernel.answer_files import AnswerFolder
from fitnoise.kernel.checks import describe_value
from fitnoise.kernel.counting import Counter, Dropped
from fitnoise.kernel.counting.keys import (
    Key,
    PrivateKeys,
    key_id,
    key_pair,
    read_public_key,
    refuse_text_of_key,
    seal,
)
from fitnoise.kernel.counting.sealed import is_sealed
from fitnoise.kernel.designs._base import Answers
from fitnoise.kernel.ledger import GENESIS, LedgerEntry, Price
from fitnoise.kernel.losses import rounded_up
from fitnoise.kernel.measure import Measurement, Stages, is_unfinished, measure, sealed
from fitnoise.kernel.periods import Series
from fitnoise.kernel.series import draw, read_answers, series_charges, touched
from fitnoise.kernel.series import redraw as draw_again
from fitnoise.ledgers import Ledger, exists, is_address
from fitnoise.mechanisms.documents import parse
from fitnoise.mechanisms.gaussian.series import joined
from fitnoise.messages import Message, Notice, Value, ValueKind, english
from fitnoise.planning.files import read_text, replace_file
from fitnoise.planning.plan import Plan, read_back
from fitnoise.proposals import Proposal, person
from fitnoise.reading import verification
from fitnoise.reading.description import (
    MAX_FILE_CHARACTERS,
    MAX_REASON_CHARACTERS,
    Superseded,
    TotalsReference,
    is_file_name,
    is_reason,
)
from fitnoise.reading.refusals import UNWRITTEN
from fitnoise.reading.release import Release, drawn_digest, to_write
from fitnoise.reading.release_files import DESCRIPTION, check_new_file, clear_leftovers, reserved, staged
from fitnoise.request.arguments import checked
from fitnoise.request.known_totals import TotalsFile, confirmation, parse_totals
from fitnoise.request.workloads import list_names
from fitnoise.solving.witnesses import claimed

_log = logging.getLogger("fitnoise.publishing")
"""Receives the steps of releases. No record has a value or a number of records of the data, a scale, or a time."""

P = ParamSpec("P")
R = TypeVar("R")


def _with_ledger_file(function: Callable[P, R]) -> Callable[P, R]:
    """Return a function that also takes the file of a ledger in place of an open one.

    Lower packages cannot open ledgers.
    """

    @functools.wraps(function)
    def opening(*args: P.args, **kwargs: P.kwargs) -> R:
        file: Any = kwargs.get("ledger")
        if not isinstance(file, str | os.PathLike):
            return function(*args, **kwargs)
        if not is_address(file) and not Path(file).is_file():  # opening would make a new ledger, which knows nothing
            raise missing_ledger(file, "Nothing was verified.")
        with Ledger(file) as book:
            kwargs["ledger"] = book
            return function(*args, **kwargs)

    return opening


def missing_ledger(
    file: str | os.PathLike[str], outcome: str, action: str = "Check the path of the ledger."
) -> LedgerError:
    """Return the error for a ledger whose file does not exist.

    Args:
        file: The given file.
        outcome: The sentence that states what did not happen.
        action: The sentence that states the remedy.
    """
    return LedgerError("file-missing", f"There is no ledger {Path(file).name!r}.", "", action, outcome)


verify = _with_ledger_file(verification.verify)

UNSEEDED = dict.fromkeys(
    ("seed", "random_seed", "random_state", "rng"),
    "Noise has no seed, because anyone who knew the seed could subtract the noise. To test code reproducibly, make a "
    "release of answers of your own, without data and without a charge: fitnoise.Release(plan, answers).",
)
"""The reason why functions that draw noise take no seed, by the names of a seed in other libraries."""


@checked(ReleaseError, "Nothing was measured, nothing was charged.", absent=UNSEEDED, confidential=("private_key",))
def release(
    plan: Plan,
    data: Any,
    *,
    ledger: str | os.PathLike[str] | Ledger,
    directory: str | os.PathLike[str] | None = None,
    tables: str | Iterable[str] | None = None,
    table: str | None = None,
    private_key: Key | Sequence[Key] | PrivateKeys | None = None,
    passphrase: Any = None,
    group_readable_key: bool = False,
    period: str | int | None = None,
    series: str | os.PathLike[str] | None = None,
    again: bool = False,
    supersedes: str | os.PathLike[str] | None = None,
    reason: str | None = None,
    public: str | os.PathLike[str] | None = None,
    public_confirm: str | None = None,
    expect_head: tuple[int, str] | None = None,
    share: str | None = None,
    approve: str | os.PathLike[str] | None = None,
    by: str | None = None,
    progress: Callable[[str], None] | None = None,
    notice: Callable[[str], None] | None = None,
    dropped: Callable[[Dropped], None] | None = None,
) -> Release:
    """Measure a plan on data, once, and release its tables; for a series, those of the next period.

    If a call ended after the charge, before its release was in place, an equal call finishes it without a further
    charge. It uses the stored answers, or draws new ones if none were stored. If the release of a call is in place, the
    call returns it as read, and changes nothing.

    Args:
        plan: A plan from :func:`fitnoise.plan`.
        data: One of several forms. Files of records: a CSV or Parquet file, a pattern, a folder of such files, or a
            list of these. Folders called column=value hold a column. Other files: DuckDB, SQLite, SPSS, SAS, Stata or
            Excel. In memory: an Arrow, Polars or pandas frame, or an array of counts. From Spark: "spark:TABLE", a
            session or its DataFrame. A file of counts from :func:`count` works, too. A database counts where it is;
            give "env:NAME" (an environment variable with its URL), a URL without a password, or an Engine of
            SQLAlchemy.
        ledger: The ledger, its file (made if it does not exist), or its address (`env:NAME`, or a URL of PostgreSQL
            without a password). It is charged before any noise is drawn.
        directory: The directory for the release, which must not exist, or be empty. None writes nothing.
        tables: The names of the tables to write there as files; None writes all. The others can be rebuilt at any time.
        table: The table of a database or a DuckDB file, or the sheet of an Excel file; overrides the plan's.
        private_key: The key that opens sealed counts, or several, of which one fits. A key is its file, "env:NAME" (a
            variable of the environment with its text), or its text as bytes.
        passphrase: The passphrase of a protected private key, a text. No error and no log repeats it.
        group_readable_key: True to accept the file of a private key that its group can read. Orchestrators make such
            files.
        period: The label of the period, for a series. Only its records in the data count.
        series: The folder with the counts of a series, as confidential as the data. The first period makes it, for its
            owner only.
        again: True to measure a plan a second time, for a second charge, even if the ledger has its finished release.
            If `directory` holds that release, the call returns it without a measurement.
        supersedes: The directory of an earlier release of the same account, which this release corrects; needs
            `reason`. It is verified with the ledger once the data are open, and never changed. The charge is that of a
            further release, because readers have both. The plan may be the same. A reader learns of the correction from
            the new release.
        reason: The reason of the correction, in one line of at most 500 characters. It is published without noise, so
            state no number or person from the data.
        public: The CSV file of the public totals, for a plan that has some. It has a column for each attribute, the
            column "number", and a row for each combination of values. fitnoise checks it before it reads data, never
            compares it with them, and publishes it with the release.
        public_confirm: The publisher's statement about this file: "The numbers in FILE were public before and were not
            computed from these data."
        expect_head: A head of the ledger that was written down earlier (:meth:`fitnoise.Ledger.head`). A ledger
            without it is refused before anything is read, such as an older copy that was restored.
        share: The name of the share of the cap that is charged, for a source with shares in the ledger. For a series,
            the first period is charged to it.
        approve: A proposal of this release from :func:`propose`, which a second person allows with this call. The
            ledger keeps its SHA-256 and both names. It is charged once.
        by: The name of the person who approves it; None for the user of the operating system. It is not authenticated.
        progress: A function, called with the name of each stage.
        notice: A function that receives a sentence for each leftover folder of killed releases to this directory. It
            receives one for a release that is finished here or is in place, too. Without `expect_head` it receives one
            if a release in a neighbouring folder has an entry that the ledger lacks. Leftovers are removed, except for
            folders in use and folders with a complete release. Once the release is in place, the function also receives
            the number of records outside the domain, if the plan drops such records. With `dropped` it does not.
        dropped: A function that receives this number, by attribute. It is exact and for the operator only: no file
            holds it.

    Raises:
        DataError: The data do not fit the domain or cannot be opened, or stored answers were altered.
        BudgetExceeded: The charge does not fit; nothing was charged.
        LedgerError: The ledger cannot be used, or lacks `expect_head`. Or its source has shares, and `share` is not one
            of these. Or the release was charged to another share. Or its source requires approval, and no proposal is
            approved. Or the proposal was charged before, or the charge to finish has another one. Or `again` is not
            true, and it has a finished release of the plan (with `supersedes`, one that corrects the same release). Or
            another process works on one. Or, for a series, another period is next, or the answers of an earlier one are
            lost.
        PlanError: The plan is a series, and no period or folder is given; or the plan is not a series, and one is
            given. Or the series has no such period, or `again` is true for it. Or the plan in memory differs from its
            document.
        CapExceeded: The plan costs more than a limit that it states; nothing was read.
        SpecError, WorkloadError: No specification can state the plan's request; nothing was read.
        ReleaseError: The directory is not empty or cannot be written, or another process writes it. Or a table to write
            is unknown or named twice, or tables are named without a directory. Or `supersedes` is no release, is one of
            another account, or does not verify with the ledger. Or the reason is missing, or the plan is a series. Or
            the plan has public totals, and no file or no confirmation is given, or the file does not fit. Or a file is
            given for another plan. Or the release differs from its proposal, or the same person proposed it. Or a name
            is given without a proposal, or a proposal for a later period of a series, which charges nothing.
        KeyboardInterrupt: The process was interrupted.

    **Guarantees**
        * every error states whether the ledger was charged, according to the ledger, and the way to finish after a
          charge;
        * of several processes that release to one directory one is charged, and the others are refused before a charge;
        * a release that was charged is not removed, and an equal call finishes it without a further charge.
          Without a directory, :func:`read_period` finishes a drawn period of a series.
    """
    plan = read_back(plan)  # the plan that readers will see, and not what an object in memory may hide
    turn = _turn(plan, period, series)
    tables = tables if tables is None or isinstance(tables, str) else tuple(tables)
    _refuse_call(ledger, directory, tables, turn, is_repeat=again)
    _refuse_revision(supersedes, reason, is_series=turn is not None)
    proposal = _read_proposal(approve, turn, by)
    totals = _confirmed_totals(plan, public, public_confirm)
    call = _Call(
        plan,
        data,
        turn,
        table,
        _private_keys(private_key, passphrase, group_readable=group_readable_key),
        again,
        progress=progress or _ignore,
        notice=notice or _ignore,
        totals=totals,
        share=share,
    )
    target, course = None if directory is None else Path(directory), _Course(ledger)
    _log_step("release-started", "releasing plan %s", plan=plan.hash, ledger=_path(ledger))
    # in this order: after an error the stack closes the ledger, and then its entries are read for the outcome
    with course.stating_outcome(), contextlib.ExitStack() as stack:
        # a new ledger is made after the rehearsal, so that no error before it leaves a file
        book = _existing_ledger(ledger, expect_head, stack)
        call = call.correcting(supersedes, reason, ledger, book)
        if proposal is not None:
            _check_proposed_head(proposal, ledger, book)
            call = replace(call, approval=proposal.approved(person(by), call.statement(ledger, directory, tables)))
        if target is not None and book is not None:
            ready = _in_place(call, book, target, tables)
            if ready is not None:
                call.inform("release-found", "terminal.notice.in_place", directory=target.name)
                return ready
        with contextlib.nullcontext() if target is None else staged(target, course.is_charged) as stage:
            for text in _neighbouring_folders(plan, target, book, has_head=expect_head is not None):
                call.notice(text)
            released_plan = plan if turn is None else plan.truncate(turn.period)
            table_names = () if stage is None else to_write(released_plan, tables)
            unfinished, counter = None, None
            if book is not None:
                unfinished = _charged_before(call, target, book, course.stages)
            if isinstance(unfinished, Measurement):
                measured = unfinished  # the stored answers: the data are not needed, and need not be there any more
                call.verify_earlier(book)
            else:
                counter = call.counter()
                call.verify_earlier(book)  # takes longest, so the data are opened before
                call.enter("rehearsing without data")
                _rehearse(released_plan, stage, table_names, call.supersedes, totals)
                book = book or _opened_ledger(ledger, stack)
                measured = call.measured(counter, book, course.stages, unfinished)
            if unfinished is not None:
                call.inform("charge-found", "terminal.notice.charged_before", entry=measured.charge.sequence)
            assert book is not None  # noqa: S101 - a ledger was opened before any draw, or the drawn answers are in it
            # until the folder is in its place no other process may take this charge for an unfinished one
            stack.enter_context(AnswerFolder(book).holding(measured.charge))
            result = (
                _released(measured, call, book)
                if turn is None
                else _series_release(released_plan, [*_before(turn, book), measured], book)
            )
            if stage is not None:
                call.enter("writing the tables")
                result._fill(stage, table_names)
        course.placed = True  # the end of the block above has moved the folder
        _tidy(book, measured.charge, target)
    _log_step("released", "released entry %s", entry=measured.charge.sequence, directory=_path(directory))
    _report_dropped(counter, notice, dropped)
    return result


def _log_step(event: str, text: str, **values: Any) -> None:
    """Log a step of a release. The first of the values fills the text."""
    _log.info(text, next(iter(values.values())), extra={"event": event, **values})


def _enter(stage: str, progress: Callable[[str], None]) -> None:
    # the share of the data that is counted is not logged: its steps depend on the number of records
    _log_step("stage", "%s", stage=stage)
    progress(stage)


def _path(path: str | os.PathLike[str] | Ledger | None) -> str | None:
    """Return a path as the caller gave it; None for an open ledger or an address, or without a path."""
    return None if path is None or isinstance(path, Ledger) or is_address(path) else os.fspath(path)


def _refuse_revision(supersedes: str | os.PathLike[str] | None, reason: str | None, *, is_series: bool) -> None:
    """Raise an error if these arguments cannot state that a release supersedes another."""
    if (supersedes is None) != (reason is None):
        is_reason_missing = reason is None
        raise ReleaseError(
            "supersedes-and-reason",
            f"{'An earlier release' if is_reason_missing else 'A reason'} is given alone.",
            "A correction needs both: the earlier release (--supersedes) and the reason (--reason).",
            "Give both, or neither.",
            _NOTHING,
            place="reason" if is_reason_missing else "supersedes",
        )
    if reason is not None and not is_reason(reason):
        raise ReleaseError(
            "wrong-reason",
            f"The reason of the correction is {describe_value(reason)}.",
            f"It must be one printable line of at most {MAX_REASON_CHARACTERS} characters, without spaces around it.",
            "Give such a text.",
            _NOTHING,
            place="reason",
        )
    if supersedes is not None and is_series:
        raise ReleaseError(
            "series-supersedes",
            "The plan is a series, and an earlier release is named.",
            "A series counts each period once, so no period can be a correction.",
            "Plan the corrected periods without [series], and release this plan.",
            _NOTHING,
            place="supersedes",
        )


def _confirmed_totals(plan: Plan, public: str | os.PathLike[str] | None, stated: str | None) -> TotalsFile | None:
    """Return the file of public totals, which the publisher confirms; None for a plan without public totals.

    Raises:
        ReleaseError: The plan has public totals, and there is no usable file, or no confirmation. Or it has none, and a
            file or a confirmation is given.
    """
    declared = plan.publication.public
    if (declared is None) != (public is None) or (declared is None and stated is not None):
        raise ReleaseError(
            "public-file-misfit",
            "The plan has public totals, and no file of them is given."
            if public is None and declared is not None
            else "The plan has no public totals, and a file of them or its confirmation is given.",
            "The file belongs to a plan whose specification has [[public]].",
            "Give the file (--public), or release a plan without public totals."
            if public is None and declared is not None
            else "Remove --public and --public-confirm, or plan with [[public]].",
            _NOTHING,
            place="public",
        )
    if declared is None or public is None:
        return None
    path = Path(public)
    if not is_file_name(path.name):
        raise ReleaseError(
            "public-file-name",
            f"The name of the file of public totals is {path.name!r}.",
            f"The release states it, so it has printable characters alone, and at most {MAX_FILE_CHARACTERS}.",
            "Rename the file.",
            _NOTHING,
            place="public",
        )
    if stated != (sentence := confirmation(path.name, declared, plan.publication.unit.name)):
        raise ReleaseError(
            "public-not-confirmed",
            "The public totals are not confirmed." if stated is None else f"The confirmation is {stated!r}.",
            "The publisher confirms by a sentence where they come from.",
            f'If it is true, type exactly: --public-confirm "{sentence}" (in Python public_confirm).',
            _NOTHING,
            place="public_confirm",
        )
    return parse_totals(path.name, read_text(path), declared, plan.publication.domain)


def _superseded(plan: Plan, folder: Path, reason: str) -> tuple[Superseded, ...]:
    """Return the chain of earlier releases: the one in a folder, then those that it supersedes.

    Raises:
        ReleaseError: The folder is no release, or is of another account, or no ledger charged it.
    """
    earlier = Release.read(folder)
    account, earlier_account = plan.order.account, earlier.plan.order.account
    if earlier_account != account:
        raise ReleaseError(
            "superseded-of-another-account",
            f"The release {folder.name!r} is of the account {earlier_account.source!r} ({earlier_account.sentence}), "
            f"and the plan of {account.source!r} ({account.sentence}).",
            "A correction is charged to the account of the release that it supersedes.",
            "Plan with the source and the unit of the earlier release.",
            _NOTHING,
            place="supersedes",
        )
    if earlier.entry is None:
        raise _not_verified(folder, "")
    return (Superseded(earlier.entry, drawn_digest(earlier), reason), *earlier.supersedes)


def _not_verified(folder: Path, finding: str) -> ReleaseError:
    """Return the error for an earlier release that does not verify."""
    return ReleaseError(
        "superseded-not-verified",
        f"The release {folder.name!r} does not verify with this ledger.{finding}",
        "A correction names a release that verifies, and the ledger that charged it.",
        "Bring its files back as they were written, or give its ledger.",
        _NOTHING,
        place="supersedes",
    )


def _refuse_call(
    ledger: str | os.PathLike[str] | Ledger,
    directory: str | os.PathLike[str] | None,
    tables: str | Iterable[str] | None,
    turn: _PeriodTurn | None,
    *,
    is_repeat: bool,
) -> None:
    """Raise an error if these arguments cannot make a release."""
    if ledger.file is None if isinstance(ledger, Ledger) else str(ledger) == ":memory:":
        raise LedgerError(
            "ledger-in-memory",
            "The ledger is in memory, and its entries are lost with the process.",
            "A release needs a ledger that stays.",
            "Give a file as the ledger.",
            _NOTHING,
            place="ledger",
        )
    if directory is None and tables is not None:
        raise ReleaseError(
            "tables-without-directory",
            "Tables to write are named, and no directory.",
            "",
            "Give a directory, or remove the tables.",
            _NOTHING,
            place="tables",
        )
    if is_repeat and turn is not None:
        raise PlanError(
            "period-again",
            "A period of a series is to be measured again.",
            "A series counts each period once.",
            "Write its release from the stored answers: fitnoise.read_period, or `fitnoise series write`. If the "
            "answers are lost, --redraw draws them again at a further cost.",
            _NOTHING,
            place="again",
        )


@final
@dataclass(frozen=True)
class _Call:
    """The data of a release, and the recipients of its notices.

    plan: The plan, of all periods of a series.
    data: The data, as for :func:`release`.
    turn: For a series, the requested period; None for another plan.
    table: The table or sheet that replaces the plan's; None keeps the plan's.
    keys: The private keys that may open sealed counts; None without a key.
    is_repeat: True if the plan is to be measured again, for a second charge.
    progress: A function that receives the name of each stage.
    notice: A function that receives sentences for the operator.
    earlier: The folder of the release that this one supersedes; None without one.
    supersedes: The earlier releases that the release supersedes, the newest first.
    totals: The file of public totals; None for a plan without them.
    share: The name of the share that is charged; None without one.
    approval: The statements of the ledger's entry on the proposal and the two persons; empty without a proposal.
    """

    plan: Plan
    data: Any
    turn: _PeriodTurn | None
    table: str | None
    keys: PrivateKeys | None
    is_repeat: bool
    progress: Callable[[str], None]
    notice: Callable[[str], None]
    earlier: Path | None = None
    supersedes: tuple[Superseded, ...] = ()
    totals: TotalsFile | None = None
    share: str | None = None
    approval: Mapping[str, str] = field(default_factory=dict)

    @property
    def note(self) -> dict[str, str]:
        """The statements of the ledger's entry: the superseded release's entry, a promise, and the public totals."""
        out = {"supersedes": self.supersedes[0].entry.digest} if self.supersedes else {}
        promise, stated = self.plan.publication.source.view, self.plan.publication.public
        out |= {} if promise is None else {"view": promise}
        if self.totals is None or stated is None:
            return out
        sentence = confirmation(self.totals.name, stated, self.plan.publication.unit.name)
        return out | {"public_totals": self.totals.sha256, "confirmed": sentence}

    def enter(self, stage: str) -> None:
        """Log the name of a stage, and pass it to the recipient."""
        _enter(stage, self.progress)

    def inform(self, event: str, text_id: str, **values: str | int) -> None:
        """Log a finding of the ledger, and pass its sentence to the recipient."""
        kinds = {str: ValueKind.CODE, int: ValueKind.TEXT}
        sentence = Notice(Message(text_id, tuple(Value(k, x, kinds[type(x)]) for k, x in values.items())))
        _log.info("%s", sentence, extra={"event": event, "plan": self.plan.hash, **values})
        self.notice(sentence)

    def correcting(
        self,
        supersedes: str | os.PathLike[str] | None,
        reason: str | None,
        ledger: str | os.PathLike[str] | Ledger,
        book: Ledger | None,
    ) -> _Call:
        """Return the call with the earlier release that it corrects, or as it is without one; `book`: None without one.

        Raises:
            LedgerError: There is no ledger.
            ReleaseError: The earlier release cannot be corrected by the plan.
        """
        if supersedes is None:
            return self
        if book is None:
            raise missing_ledger(Path(str(ledger)), _NOTHING, "Give the ledger that charged the earlier release.")
        chain = _superseded(self.plan, Path(supersedes), reason or "")
        return replace(self, earlier=Path(supersedes), supersedes=chain)

    def statement(
        self,
        ledger: str | os.PathLike[str] | Ledger,
        directory: str | os.PathLike[str] | None,
        tables: str | Iterable[str] | None,
    ) -> dict[str, Any]:
        """Return what would be released and charged, as JSON values: what a proposal states and an approval compares.

        It has no number from the data, which are not opened. Paths are absolute.
        """
        plan, turn = self.plan, self.turn
        order, price, text = plan.order, Price.from_loss(plan.order.ledger_loss()), plan.to_json()
        table_names = to_write(plan if turn is None else plan.truncate(turn.period), tables)
        file = _path(ledger)
        return {
            "title": plan.publication.title,
            "tables": [table.name for part in plan.publication.groups for table in part.workload.tables],
            "questions": [q.name for q in plan.publication.questions],
            "plan": plan.hash,
            "plan_text": hashlib.sha256(text.encode()).hexdigest(),
            "account": order.account.source,
            "unit": order.account.sentence,
            "share": self.share,
            "rho": rounded_up(price.rho),
            "rho_exact": str(price.rho),
            "epsilon": price.as_json().get("epsilon"),
            "data": _data_names(self.data),
            "table": self.table,
            "declaration": json.loads(text)["spec"].get("data", {}),
            "ledger": None if file is None else str(Path(file).absolute()),
            "directory": None if directory is None else str(Path(directory).absolute()),
            "written": "all" if tables is None else list(table_names),
            "period": None if turn is None else turn.labels[turn.period - 1],
            "series": None if turn is None else str(turn.folder.absolute()),
            "again": self.is_repeat,
            "supersedes": [one.document() for one in self.supersedes],
            "public": {key: self.note[key] for key in ("public_totals", "confirmed") if key in self.note},
        }

    def refuse_other_proposal(self, charge: LedgerEntry) -> None:
        """Raise LedgerError unless the charge to finish was made under the proposal of this call, or both have none."""
        charged = charge.detail.get("proposal")
        if charged != self.approval.get("proposal"):
            raise LedgerError(
                "charged-under-other-proposal",
                f"Entry {charge.sequence} of the ledger is the charge of this plan, under "
                f"{'no proposal' if charged is None else f'the proposal {describe_value(str(charged)[:12])}'}.",
                "A charge is finished under the proposal that it was approved by.",
                "Repeat the command without --approve." if charged is None else "Repeat the command that approved it.",
                _NOTHING,
                place="approve",
            )

    def refuse_other_share(self, charge: LedgerEntry) -> None:
        """Raise LedgerError if a share is given, and the charge to finish was made to another, or to none."""
        charged = charge.detail.get("share")
        if self.share not in (None, charged):
            raise LedgerError(
                "charged-to-other-share",
                f"Entry {charge.sequence} of the ledger is the charge of this plan, to "
                f"{'no share' if charged is None else f'the share {charged!r}'}.",
                "A charge stays with the share that it was made to.",
                "Repeat the command without --share.",
                _NOTHING,
                place="share",
            )

    def verify_earlier(self, book: Ledger | None) -> None:
        """Raise ReleaseError unless the superseded release verifies with the ledger."""
        if self.earlier is None:
            return
        self.enter("verifying the superseded release")
        failed = next((x for x in verification.verify(self.earlier, ledger=book).checks if not x.holds), None)
        if failed is not None:
            raise _not_verified(self.earlier, f" {english(failed.claim)}: {english(failed.finding)}.")

    def counter(self) -> Counter:
        """Open the data."""
        self.enter("opening the data")
        return _opened(self.plan, self.data, self.table, self.keys)

    def measured(self, counter: Counter, book: Ledger, stages: Stages, unfinished: LedgerEntry | None) -> Measurement:
        """Count, charge and measure; after an unfinished charge, count and measure.

        unfinished: A charge without answers, for which the measurement is made; None if a new charge is due.
        """
        if self.turn is not None:
            _before(self.turn, book)  # raises if the answers of an earlier period are lost: before any charge
        self.enter("counting, charging and measuring")

        def counted(fraction: float) -> None:
            self.progress(f"counting, {fraction:.0%}")

        finding: FoundView | None = getattr(counter, "view", None)
        note = ({} if finding is None else {"view": finding.word}) | self.note | dict(self.approval)
        if unfinished is not None and unfinished.detail.get("view") != note.get("view"):
            raise LedgerError(
                "charged-for-another-view",
                f"Entry {unfinished.sequence} of the ledger is the charge of this plan for other data: the one is a "
                "row-wise view, and the other is not.",
                "A charged release is finished with the data that it was charged for.",
                "Repeat the command with these data.",
                _NOTHING,
                place="data",
            )
        if self.turn is not None:
            turn = self.turn
            done = draw(
                turn.series,
                turn.period,
                counter,
                book,
                turn.folder,
                share=self.share,
                note=note,
                stages=stages,
                progress=counted,
            )
        else:
            order, note = self.plan.order, note | ({} if self.share is None else {"share": self.share})
            # the ledger's own check does not distinguish corrections from the release that they supersede
            once = not self.is_repeat and not self.supersedes
            done = measure(
                order, counter, book, unfinished=unfinished, once=once, note=note, stages=stages, progress=counted
            )
        _log_step("charged", "entry %s is charged", entry=done.charge.sequence, plan=self.plan.hash)
        return done


_NOTHING = "Nothing was measured and nothing was charged."

_REPEAT = "Repeat the command or call: it finishes the release, at no further charge."


@final
class _Course:
    """The known steps of a release, from which every error takes its outcome.

    Args:
        ledger: The ledger, or its file.
        nothing: The sentence if nothing was charged.
    """

    def __init__(self, ledger: str | os.PathLike[str] | Ledger, nothing: str = _NOTHING) -> None:
        self._ledger, self._nothing = ledger, nothing
        self.stages, self.placed = Stages(), False

    def is_charged(self) -> bool:
        """Return True if the ledger was charged for the release."""
        return self.stages.charge is not None

    @contextlib.contextmanager
    def stating_outcome(self) -> Iterator[None]:
        """Replace the outcome of errors by the steps that were done, according to the ledger.

        Raises:
            FitnoiseError: The raised error, with another outcome.
            ReleaseError: The operating system refused a step.
            KeyboardInterrupt: The interruption, with the outcome as its text.
            Exception: An error of other software, with the outcome as a note.
        """
        try:
            yield
        except KeyboardInterrupt:
            raise KeyboardInterrupt(self._outcome()) from None
        except Exception as error:
            if is_interruption(error):  # an engine has turned the interruption into an error
                raise KeyboardInterrupt(self._outcome()) from None
            if isinstance(error, FitnoiseError):
                outcome = self._outcome()
                if outcome == error.outcome:
                    raise
                raise error.with_outcome(outcome) from error
            if isinstance(error, OSError):
                raise ReleaseError(
                    "operating-system-refused",
                    f"The operating system refused a step of the release ({error.strerror}).",
                    "",
                    "Remove this cause.",
                    self._outcome(),
                ) from error
            error.add_note(self._outcome())  # an error of other software keeps its class
            raise

    def _outcome(self) -> str:
        """Return the steps that were done, according to the ledger if it may have been charged."""
        charge, is_known = self._charge()
        if not is_known:
            return f"Whether the ledger was charged is not known, because it cannot be read now. {_REPEAT}"
        if charge is None:
            return self._nothing
        stays = f"The charge of entry {charge.sequence} stays in the ledger"
        if self.placed:
            return f"{stays}, and the release is in place."
        return f"{stays}{'' if self.stages.answers is None else ', and the answers are kept'}. {_REPEAT}"

    def _charge(self) -> tuple[LedgerEntry | None, bool]:
        """Return the charge of this release or None without one, and True if this is known."""
        stages = self.stages
        # without a salt no charge was tried; with one, the process may have been interrupted while it was written
        if stages.charge is not None or stages.salt is None:
            return stages.charge, True
        ledger = self._ledger
        try:
            if not isinstance(ledger, Ledger) and not exists(ledger):
                return None, False
            with contextlib.nullcontext(ledger) if isinstance(ledger, Ledger) else Ledger(ledger) as book:
                entries = [e for e in book.entries() if e.kind in ("charge", "period")]
        except (FitnoiseError, OSError):
            return None, False
        # the salt is random, or for the first draw of a period the digest of its counts: an entry with it is of this
        # release
        owned = (e for e in entries if stages.salt in (e.detail.get("salt"), e.drawn_period and e.drawn_period.frozen))
        return next(owned, None), True


def _tidy(book: Ledger, charge: LedgerEntry, path: Path | None) -> None:
    """Remove the files that were stored for a release until it was in its place."""
    AnswerFolder(book).forget(charge)
    if path is not None:
        clear_leftovers(path, digest=charge.digest)


def _in_place(call: _Call, book: Ledger, path: Path, tables: str | Iterable[str] | None) -> Release | None:
    """Return the release in a directory if it is the requested one, according to the ledger; None otherwise.

    The requested one has the plan, the last period, the list of tables and the superseded releases of the call. The
    ledger has its charge and names its answers.
    """
    plan, turn = call.plan, call.turn
    if not (path / DESCRIPTION).is_file():
        return None
    try:
        stored = Release.read(path)
        recorded_tables = json.loads(read_text(path / DESCRIPTION))["written"]
        table_names = to_write(stored.plan, tables)
    except (FitnoiseError, ValueError, KeyError, TypeError):
        return None
    table_count = sum(len(p.workload.tables) for p in stored.plan.publication.groups)
    same = recorded_tables == ("all" if len(table_names) == table_count else list(table_names))
    same &= stored.supersedes == call.supersedes
    same &= TotalsReference.from_file(stored.public_totals) == TotalsReference.from_file(call.totals)
    last = None if turn is None else turn.labels[turn.period - 1]
    if stored.entry is None or stored.plan.hash != plan.hash or not same or (turn and stored.plan.periods[-1] != last):
        return None
    order = plan.order
    charges = book.charges(order.account, order.plan) if turn is None else book.series(order.account, order.plan)
    # a folder alone proves nothing: the release counts as finished only if the ledger names its charge and its answers
    charge = next((e for e in charges if e.digest == stored.entry.digest), None)
    if charge is not None and call.approval.get("proposal") not in (None, charge.detail.get("proposal")):
        return None
    answer_record = None if charge is None else book.answered(charge)
    if charge is None or answer_record is None or answer_record.answers != drawn_digest(stored):
        return None
    # the leftover of a process that was killed in its last moment
    with contextlib.suppress(ReleaseError), reserved(path):
        _tidy(book, charge, path)
    return stored


def _charged_before(call: _Call, path: Path | None, book: Ledger, stages: Stages) -> LedgerEntry | Measurement | None:
    """Return the charge for a release that was not finished, or its answers; None if a new charge is due.

    Raises:
        LedgerError: No second release is requested, and the first was finished, or another process is at work on it.
    """
    if call.turn is not None:
        for entry in series_charges(call.turn.series, book)[:1]:
            call.refuse_other_share(entry)
            if call.turn.period == 1:
                call.refuse_other_proposal(entry)
        return _drawn_before(call.turn, path, book, stages)
    answer_folder, charges = AnswerFolder(book), charged_before(call.plan, book)
    # the answers of another correction are of other data, so a call finishes only charges with its own statement
    before = [x for x in charges if x[0].detail.get("supersedes") == call.note.get("supersedes")]
    open_ones = [(e, answers) for e, answers, finished in before if not finished]
    others = [e.sequence for e, _ in open_ones if any(e.detail.get(k) != x for k, x in call.note.items())]
    if others:
        raise LedgerError(
            "charged-with-other-totals",
            f"Entry {others[-1]} of the ledger is the charge of this plan, for another file of public totals.",
            "A charged release is finished with the file that it was confirmed for.",
            "Repeat the command with that file.",
            _NOTHING,
            place="public",
        )
    for entry, answers in open_ones:
        if not answer_folder.is_held(entry):
            call.refuse_other_share(entry)
            call.refuse_other_proposal(entry)
            stages.charge, stages.answers = entry, book.answered(entry)
            return entry if answers is None else Measurement(answers, entry)
    if not before and charges and not call.supersedes and not call.is_repeat:
        number = charges[-1][0].sequence
        raise LedgerError(
            "charged-as-correction",
            f"Entry {number} of the ledger is the charge of this plan, for a correction of an earlier release.",
            "A second measurement needs a second charge.",
            "To finish the correction, repeat its command with --supersedes. To measure the plan again, for a second "
            "charge, use --again (in Python again=True).",
            _NOTHING,
        )
    if before and not call.is_repeat:
        number = before[-1][0].sequence
        if open_ones:
            raise LedgerError(
                "charge-in-progress",
                f"Another process works on entry {number}, the charge of this plan.",
                "",
                "Wait until it has ended, then run the command again.",
                _NOTHING,
            )
        corrected = f", for the correction of entry {call.supersedes[0].entry.sequence}" if call.supersedes else ""
        raise LedgerError(
            "released-before",
            f"Entry {number} of the ledger is the charge of this plan{corrected}, and its release was finished.",
            "A second measurement needs a second charge.",
            f"To correct the release of entry {number}, name that release under --supersedes. To measure the plan "
            "again, for a second charge, use --again (in Python again=True).",
            _NOTHING,
        )
    return None


def charged_before(plan: Plan, book: Ledger) -> list[tuple[LedgerEntry, tuple[Answers, ...] | None, bool]]:
    """Return the charges of a plan, with the stored answers to each, and True if its release was finished.

    Args:
        plan: A plan without a series.
        book: The ledger.

    Raises:
        LedgerError: The ledger cannot be used, or stored answers were altered.
    """
    charges = []
    for entry in book.charges(plan.order.account, plan.order.plan):
        answer_record = book.answered(entry)
        # read by the digest in the ledger, so that an altered file is refused here and not after a second draw
        answers = None if answer_record is None else AnswerFolder(book).read(entry, answer_record)
        # answers that the ledger names are stored until the release is in its place: without them it was finished
        charges.append((entry, answers, not is_unfinished(book, entry) if answer_record is None else answers is None))
    return charges


def _drawn_before(turn: _PeriodTurn, path: Path | None, book: Ledger, stages: Stages) -> Measurement | None:
    """Return the answers of the last charged period of a series, if its release is requested again.

    If its process ended before the draw, the function draws it now, at no charge. Otherwise, return None if another
    period is requested, if the answers are lost, or if no directory is given. The caller then draws a period, which the
    kernel refuses unless it is the next one.
    """
    charges = book.series(turn.series.order.account, turn.series.order.plan)
    if turn.period != len(charges):
        return None
    if book.answered(charges[-1]) is None:  # charged, and its process ended before the draw: drawn now, at no charge
        stages.charge = charges[-1]
        return draw_again(turn.series, turn.period, book, turn.folder, stages=stages)
    last_draw = None if path is None else _read_draws(turn.series, book, turn.folder)[-1]
    if not isinstance(last_draw, Measurement):
        return None
    stages.charge, stages.answers = last_draw.charge, book.answered(last_draw.charge)
    return last_draw


def _report_dropped(
    counter: Counter | None, notice: Callable[[str], None] | None, dropped: Callable[[Dropped], None] | None
) -> None:
    """Give the operator the number of records that were dropped; last of all, because a callback may fail."""
    if counter is not None and (dropped_records := counter.dropped) is not None:
        if dropped is not None:
            dropped(dropped_records)
        elif notice is not None:
            notice(str(dropped_records))


@final
@dataclass(frozen=True)
class PeriodStatus:
    """The state of a period of a series.

    Attributes:
        period: The label of the period in tables.
        sequence: The number of the ledger's entry for its draw; None if it was not drawn.
        time: The time of the draw, in UTC.
        has_answers: True if its answers are stored. If a period has an entry and no answers, draw it again before the
            next period, at the cost `price` (:func:`read_period` with `redraw`).
        price: The cost ρ of drawing it again, rounded up; 0 if the ledger names no answers of the period.
        frozen: True if its frozen counts exist unchanged, or it was not drawn; without them no later period is drawn.
    """

    period: str | int
    sequence: int | None
    time: str | None
    has_answers: bool
    price: float
    frozen: bool = True


@checked(ReleaseError, "Nothing was read.")
def list_periods(
    plan: Plan, *, ledger: str | os.PathLike[str] | Ledger, series: str | os.PathLike[str]
) -> tuple[PeriodStatus, ...]:
    """Return the state of each period of a series. Reads no data, and changes nothing.

    Args:
        plan: The plan of the series.
        ledger: The ledger, or its file.
        series: The folder with its counts.

    Raises:
        PlanError: The plan is not of a series.
        LedgerError: There is no such ledger, or it cannot be used.
        DataError: There is no such folder, but periods were drawn; or the answers in it were altered.
    """
    if plan.series is None:
        raise _no_series()
    with contextlib.ExitStack() as stack:
        book = _there(ledger, stack)
        # charged and not drawn: the process ended between the two, and the draw is due at no further charge
        waiting = {e.digest for e in book.series(plan.order.account, plan.order.plan) if book.answered(e) is None}
        draws = _read_draws(plan.series, book, Path(series))
        others = {entry.digest for entry in touched(plan.series, book, Path(series))}
    out = []
    for i, (label, design) in enumerate(zip(plan.periods, plan.series.designs, strict=True)):
        one = draws[i] if i < len(draws) else None
        entry = one.charge if isinstance(one, Measurement) else one
        waits = entry is not None and entry.digest in waiting
        # the charge of a period that was not drawn yet is that of its draw
        price = 0.0 if waits else rounded_up(claimed(design, plan.order.adjacency).loss(plan.order.adjacency).rho)
        number, time = (None, None) if entry is None else (entry.sequence, entry.time)
        frozen = entry is None or entry.digest not in others
        out.append(PeriodStatus(label, number, time, isinstance(one, Measurement), price, frozen))
    return tuple(out)


@checked(ReleaseError, "Nothing was written.", absent=UNSEEDED)
def read_period(
    plan: Plan,
    period: str | int,
    *,
    ledger: str | os.PathLike[str] | Ledger,
    series: str | os.PathLike[str],
    directory: str | os.PathLike[str] | None = None,
    tables: str | Iterable[str] | None = None,
    redraw: bool = False,
    share: str | None = None,
    notice: Callable[[str], None] | None = None,
) -> Release:
    """Return the release of a series up to a period that was drawn before, from stored answers, without data.

    Args:
        plan: The plan of the series.
        period: The label of the period in tables.
        ledger: The ledger, or its file.
        series: The folder with its counts and answers.
        directory: The directory for the release, which must not exist, or be empty. None writes nothing.
        tables: The names of the tables to write there as files; None writes all.
        redraw: True to draw the rows of a period again if its answers are lost. fitnoise draws from the frozen counts,
            and charges the separate cost of these rows. The charge is 0 if the ledger names no answers of the period.
        share: The name of the share that `redraw` charges; None for the share that was charged for the series.
        notice: A function that receives a sentence for each leftover folder of killed processes (:func:`release`).

    Raises:
        PlanError: The plan is not of a series, or has no such period.
        LedgerError: There is no such ledger, or the period was not drawn yet. Or the answers of an earlier period are
            lost, or stored answers were altered. Or its own are lost, and `redraw` is not true; or they exist, and it
            is.
        BudgetExceeded: The charge does not fit; nothing was drawn.
        DataError: There is no such folder, or it cannot be read. With `redraw`, the frozen counts were altered.
        ReleaseError: The directory is not empty or cannot be written, or a table is unknown or named twice.
    """
    plan = read_back(plan)
    turn = _turn(plan, period, series)
    if turn is None:
        raise _no_series()
    course = _Course(ledger, "Nothing was drawn and nothing was charged.")
    with course.stating_outcome(), contextlib.ExitStack() as stack:
        stage = None if directory is None else stack.enter_context(staged(Path(directory), course.is_charged))
        for leftover in () if directory is None else clear_leftovers(Path(directory)):
            (notice or (lambda _: None))(leftover)
        book = _there(ledger, stack)
        released_plan = plan.truncate(turn.period)
        table_names = () if stage is None else to_write(released_plan, tables)
        if redraw:
            _before(turn, book)  # answers of an earlier period that are lost are an error before the charge
            rows = claimed(turn.series.designs[turn.period - 1], turn.series.order.adjacency)
            draw_again(turn.series, turn.period, book, turn.folder, claim=rows.claim, share=share, stages=course.stages)
        # the draws up to this period are those before the next one
        draws = _before(_PeriodTurn(turn.series, turn.period + 1, turn.folder, turn.labels), book)
        if len(draws) < turn.period:
            raise LedgerError(
                "period-not-released",
                f"Period {period} was not drawn yet.",
                "",
                "Release it first (fitnoise release --period).",
                "Nothing was written.",
                place="period",
            )
        result = _series_release(released_plan, draws, book)
        if stage is not None:
            result._fill(stage, table_names)
    _log_step("period-read", "read period %s", period=period, plan=plan.hash)
    return result


@checked(ReleaseError, "Nothing was proposed.")
def propose(
    plan: Plan,
    data: Any,
    file: str | os.PathLike[str],
    *,
    ledger: str | os.PathLike[str] | Ledger,
    by: str | None = None,
    directory: str | os.PathLike[str] | None = None,
    tables: str | Iterable[str] | None = None,
    table: str | None = None,
    period: str | int | None = None,
    series: str | os.PathLike[str] | None = None,
    again: bool = False,
    supersedes: str | os.PathLike[str] | None = None,
    reason: str | None = None,
    public: str | os.PathLike[str] | None = None,
    public_confirm: str | None = None,
    expect_head: tuple[int, str] | None = None,
    share: str | None = None,
) -> Path:
    """Write a proposal of a release, for a second person: ``release(…, approve=file, by="…")``.

    Nothing is charged, no noise is drawn, and the data are not opened. The proposal names the data, and states nothing
    about their content. Another person reads the file, and calls :func:`release` with the same arguments.

    Args:
        plan: A plan from :func:`fitnoise.plan`.
        data: The data, as for :func:`release`. Files are named by their absolute paths; other objects by their type.
        file: The new file for the proposal.
        ledger: The ledger, as for :func:`release`. It is only read. The proposal states its head, and the balance of
            the account before and after the release.
        by: The name of the person who proposes; None for the user of the operating system. It is not authenticated.
        directory: The directory of the release, as for :func:`release`.
        tables: The names of the tables to write there as files; None writes all.
        table: The table of a database or a DuckDB file, or the sheet of an Excel file; overrides the plan's.
        period: The label of the first period, for a series. Its charge covers all periods.
        series: The folder with the counts of a series.
        again: True to measure a plan a second time, for a second charge.
        supersedes: The directory of an earlier release, which this release corrects; needs `reason`.
        reason: The reason of the correction, in one line of at most 500 characters.
        public: The CSV file of the public totals, for a plan that has some.
        public_confirm: The publisher's statement about this file.
        expect_head: A head of the ledger that was written down earlier. A ledger without it is refused.
        share: The name of the share of the cap that is charged, for a source with shares in the ledger.

    Returns:
        The path of the file.

    Raises:
        ReleaseError: The file exists or cannot be written, or the person has no name. Or the arguments cannot make a
            release, as in :func:`release`. Or the period is not the first of its series.
        DataError: The URL of the data has a password.
        LedgerError: The ledger cannot be used, or lacks `expect_head`; or the plan cannot be charged to it.
        PlanError, SpecError, WorkloadError: The plan cannot be released.

    **Guarantees**
        * No data are read, no noise is drawn, and no entry is written to the ledger.
        * Each charge under the proposal is for what it states, at its price, and there is at most one.
    """
    plan = read_back(plan)
    path, turn, name = Path(file), _turn(plan, period, series), person(by)
    _refuse_call(ledger, directory, tables, turn, is_repeat=again)
    _refuse_revision(supersedes, reason, is_series=turn is not None)
    _refuse_proposal(turn, by, has_proposal=True)
    totals = _confirmed_totals(plan, public, public_confirm)
    check_new_file(path)
    call = _Call(plan, data, turn, table, None, again, progress=_ignore, notice=_ignore, totals=totals, share=share)
    order, loss = plan.order, plan.order.ledger_loss()
    with contextlib.ExitStack() as stack:
        book = _existing_ledger(ledger, expect_head, stack)
        call = call.correcting(supersedes, reason, ledger, book)
        book = book or stack.enter_context(Ledger(":memory:"))  # a ledger that the release will make has no entry
        also = order.losses_of_units(book.accounts())
        quote = book.quote(order.account, loss, also=also, composed_with=order.composed_with, share=share)
        sequence, digest = book.head()
    after = None if quote.spent is None or quote.increase is None else quote.spent + quote.increase
    amounts = {"spent": quote.spent, "spent_after": after, "cap": quote.cap}
    balance = {key: None if x is None else rounded_up(x) for key, x in amounts.items()}
    stated = {"sequence": sequence, "digest": digest, **balance, "fits": quote.fits}
    time = datetime.now(UTC).isoformat(timespec="seconds")
    Proposal(call.statement(ledger, directory, tables), stated, name, time).write(path)
    _log_step("proposed", "proposed plan %s", plan=plan.hash)
    return path


def _read_proposal(file: str | os.PathLike[str] | None, turn: _PeriodTurn | None, name: str | None) -> Proposal | None:
    """Return the proposal in a file; None without one. Raise ReleaseError as `Proposal.read` and `_refuse_proposal`."""
    _refuse_proposal(turn, name, has_proposal=file is not None)
    return None if file is None else Proposal.read(Path(file))


def _check_proposed_head(proposal: Proposal, ledger: str | os.PathLike[str] | Ledger, book: Ledger | None) -> None:
    """Raise LedgerError unless the ledger has the head of a proposal; `book`: None if it does not exist."""
    if book is not None:
        book.verify(proposal.head)
    elif proposal.head != (0, GENESIS):
        raise missing_ledger(Path(str(ledger)), _NOTHING)


def _ignore(_: str) -> None:
    """Ignore a stage or a notice."""


def _refuse_proposal(turn: _PeriodTurn | None, name: str | None, *, has_proposal: bool) -> None:
    """Raise ReleaseError for a name without a proposal, or a proposal of a period that charges nothing."""
    if name is not None and not has_proposal:
        raise ReleaseError(
            "name-without-proposal",
            "A name is given (--by), and no proposal.",
            "The name is that of the person who proposes or approves.",
            "Give the proposal (--propose or --approve), or remove the name.",
            _NOTHING,
            place="by",
        )
    if has_proposal and turn is not None and turn.period > 1:
        raise ReleaseError(
            "proposal-of-later-period",
            f"A proposal is named for period {turn.labels[turn.period - 1]} of a series.",
            "The first period charges the series, and its approval covers all periods.",
            "Release this period without --propose and --approve.",
            _NOTHING,
            place="period",
        )


def _data_names(data: Any) -> list[str]:
    """Return the names of data, which are not opened: absolute paths, addresses, or the type of an object.

    Raises:
        DataError: The URL of a database has a password.
    """
    # a list of anything but paths may hold records, and then its length and its texts are those of the data
    if isinstance(data, list | tuple) and all(isinstance(one, str | os.PathLike) for one in data):
        return [name for one in data for name in _data_names(one)]
    if not isinstance(data, str | os.PathLike):
        return [type(data).__name__]
    text = os.fspath(data)
    if "://" in text:
        if is_database(text):
            database(text)  # refuses a password, and connects to nothing
            return [text]
        return [f"{text.partition('://')[0]}://…"]
    return [text if text.startswith(ENVIRONMENT) or is_spark(text) else str(Path(text).absolute())]


@final
@dataclass(frozen=True)
class _PeriodTurn:
    """A period of a series.

    series: The designs of all periods.
    period: The number of the period, from 1.
    folder: The folder with the frozen counts and the answers of the series.
    labels: The labels of all periods.
    """

    series: Series
    period: int
    folder: Path
    labels: tuple[str | int, ...]


def _no_series() -> PlanError:
    return PlanError(
        "plan-without-periods",
        "The plan is no series, and has no periods.",
        "Only a plan with [series] in its specification is released period by period.",
        "Release it without --period and --series.",
        "Nothing was measured.",
    )


def _turn(plan: Plan, period: str | int | None, series: str | os.PathLike[str] | None) -> _PeriodTurn | None:
    """Return the period that is meant, and the folder of its series; None for a plan without a series.

    Raises:
        PlanError: The plan and the arguments disagree on a series, or the plan has no such period.
    """
    if plan.series is None:
        if period is not None or series is not None:
            raise _no_series()
        return None
    labels = list(map(str, plan.periods))  # a command line gives texts, and labels may be numbers
    if period is not None and str(period) not in labels:
        raise PlanError(
            "unknown-period",
            f"{str(period)!r} is no period of the series.",
            "",
            f"Choose one of {list_names(labels)}.",
            "Nothing was measured.",
            place="period",
        )
    if period is None or series is None:
        raise PlanError(
            "period-or-folder-missing",
            f"The plan is a series, and {'no period' if period is None else 'no folder of its counts'} is given.",
            "A series is released period by period, and its counts stay in a folder.",
            f"Give --period and --series. The periods are {list_names(labels)}.",
            "Nothing was measured.",
            place="period" if period is None else "series",
        )
    return _PeriodTurn(plan.series, 1 + labels.index(str(period)), Path(series), plan.periods)


def _opened_ledger(ledger: str | os.PathLike[str] | Ledger, stack: contextlib.ExitStack) -> Ledger:
    """Return an open ledger, and make it if it does not exist."""
    return ledger if isinstance(ledger, Ledger) else stack.enter_context(Ledger(ledger))


def _existing_ledger(
    ledger: str | os.PathLike[str] | Ledger, expected_head: tuple[int, str] | None, stack: contextlib.ExitStack
) -> Ledger | None:
    """Return an open ledger, or None if its file does not exist.

    Raises:
        LedgerError: The ledger cannot be used, or lacks the expected head.
    """
    if isinstance(ledger, Ledger) or exists(ledger):
        book = _opened_ledger(ledger, stack)
        if expected_head is not None:
            book.verify(expected_head)
        return book
    if expected_head is not None:
        raise missing_ledger(ledger, _NOTHING)
    return None


def _neighbouring_folders(plan: Plan, target: Path | None, book: Ledger | None, *, has_head: bool) -> Iterator[str]:
    """Yield sentences on folders next to a target: leftovers, and a release whose charge the ledger lacks.

    Args:
        plan: The plan to release.
        target: The directory of the release; None yields nothing.
        book: The ledger; None for one that does not exist.
        has_head: True if the ledger has the head that was expected, which proves more.
    """
    if target is None:
        return
    yield from clear_leftovers(target)
    charges = {} if has_head else dict(_neighbouring_charges(target, plan.order.account.source))
    recorded = {(e.sequence, e.digest) for e in book.entries()} if charges and book is not None else set()
    unknown = [(number, name) for (number, digest), name in charges.items() if (number, digest) not in recorded]
    if unknown:
        number, name = max(unknown)
        values = (Value("directory", name, ValueKind.CODE), Value("entry", number))
        yield english(Message("terminal.notice.older_ledger", values))


def _neighbouring_charges(target: Path, source: str) -> Iterator[tuple[tuple[int, str], str]]:
    """Yield number and digest of the charge of each release next to a directory, with the name of its folder.

    source: The source or account to which the releases were charged.
    """
    for file in target.resolve().parent.glob(f"*/{DESCRIPTION}"):
        with contextlib.suppress(FitnoiseError, ValueError, LookupError, TypeError, OverflowError):
            stated = parse(read_text(file))
            entry = (int(stated["ledger"]["sequence"]), str(stated["ledger"]["digest"]))
            if stated["charge"]["source"] == source:
                yield entry, file.parent.name


def _there(ledger: str | os.PathLike[str] | Ledger, stack: contextlib.ExitStack) -> Ledger:
    """Return an open ledger that exists.

    Raises:
        LedgerError: There is no such file, or it is not usable as a ledger.
    """
    if isinstance(ledger, Ledger):
        return ledger
    if not exists(ledger):
        raise missing_ledger(ledger, "Nothing was drawn.")
    return stack.enter_context(Ledger(ledger))


def _read_draws(series: Series, book: Ledger, folder: Path) -> list[Measurement | LedgerEntry]:
    """Return the draws of a series, in order: the answers with their charge, or the entry alone if these are lost.

    Answers do not count as lost because the folder does not exist, or belongs to others: these are errors.

    Raises:
        DataError: Periods were drawn, and there is no such folder; or the folder cannot be read.
        LedgerError: Stored answers were altered.
    """
    if folder.is_dir() and not os.access(folder, os.R_OK | os.X_OK):
        raise DataError(
            "series-folder-not-readable",
            f"The folder {folder.name!r} of the series cannot be read.",
            "Only its owner may read it.",
            "Run the command as its owner.",
            "Nothing was drawn.",
            place="series",
        )
    draws = read_answers(series, book, folder)
    if draws and not folder.is_dir():
        raise DataError(
            "drawn-series-folder-missing",
            f"There is no folder {folder.name!r}, and the ledger has drawn periods of this series.",
            "Their counts and answers are in a folder.",
            "Name the folder that has them, or bring it back.",
            "Nothing was drawn.",
            place="series",
        )
    return draws


def _before(turn: _PeriodTurn, book: Ledger) -> list[Measurement]:
    """Return the draws before a period, or all there are if these are fewer.

    Raises:
        LedgerError: The answers of one of these are lost, or were never drawn.
        DataError: As for `_read_draws`.
    """
    draws = _read_draws(turn.series, book, turn.folder)[: turn.period - 1]
    for label, one in zip(turn.labels, draws, strict=False):
        if not isinstance(one, Measurement) and book.answered(one) is None:
            raise LedgerError(
                "charged-period-not-drawn",
                f"Period {label} was charged (entry {one.sequence}) and not drawn, because its process was killed.",
                "Later periods need its answers.",
                "Draw it now (fitnoise series write --redraw), which costs nothing.",
                "Nothing was drawn.",
            )
        if not isinstance(one, Measurement):
            raise LedgerError(
                "answers-of-period-lost",
                f"Period {label} was drawn (entry {one.sequence}), and its answers are not in {turn.folder.name!r}.",
                "Later periods need its answers.",
                "Give the folder of this series. If the answers are lost, draw the period again, which is charged "
                "(fitnoise series write --redraw).",
                "Nothing was drawn.",
            )
    return [x for x in draws if isinstance(x, Measurement)]


def _released(measured: Measurement, call: _Call, book: Ledger) -> Release:
    """Return the release of a plan that was measured at once."""
    plan, entry = call.plan, verification.refer_to_entry(measured.charge, book.entries())
    count = len(plan.groups)  # answers of tables first, then one output for each question
    answers = [y for part in measured.answers[:count] for y in part]
    outputs = [int(x.item()) for (x,) in measured.answers[count:]]
    return Release(
        plan, answers, measured.charge, outputs, entry=entry, supersedes=call.supersedes, public_totals=call.totals
    )


def _series_release(plan: Plan, measurements: Sequence[Measurement], book: Ledger) -> Release:
    """Return the release of a series up to its last drawn period."""
    charge = measurements[-1].charge
    answers = joined(plan.table_part, [m.answers[0] for m in measurements])
    return Release(plan, answers, charge, entry=verification.refer_to_entry(charge, book.entries()))


@checked(ReleaseError, "Nothing was counted.", confidential=("public_key",))
def count(
    plan: Plan,
    data: Any,
    file: str | os.PathLike[str],
    *,
    public_key: Key | Sequence[Key] | None = None,
    unsealed: bool = False,
    table: str | None = None,
    progress: Callable[[str], None] | None = None,
    notice: Callable[[str], None] | None = None,
    dropped: Callable[[Dropped], None] | None = None,
) -> Path:
    """Count for a plan where the data are, to release it elsewhere: ``release(plan, file, private_key=…)``.

    The file holds the exact counts that the plan needs, and is as confidential as the data. Counting charges nothing;
    each release from the file does.

    Args:
        plan: A plan from :func:`fitnoise.plan`.
        data: The data, as for :func:`release`.
        file: The file for the counts, which must not exist. Its length follows from the plan and the number of keys,
            not from the data.
        public_key: The key for which they are sealed (:func:`new_keys`), or several. The owner of each private key can
            read them. A key is its file, "env:NAME" (a variable of the environment with its text), or its text as
            bytes.
        unsealed: True to leave them unsealed; only the owner of the file may read it.
        table: The table of a database or a DuckDB file, or the sheet of an Excel file; overrides the plan's.
        progress: A function, called with the name of each stage.
        notice: A function that receives a sentence with the number of records outside the domain, without
            `dropped`. The file does not hold this number.
        dropped: A function that receives this number, by attribute.

    Raises:
        DataError: The data cannot be opened or do not fit the domain. Or a key is no public key, or the package that
            seals is not installed. Nothing was written.
        CapExceeded, PlanError, SpecError, WorkloadError: The plan cannot be released; nothing was read.
        ReleaseError: Neither a key nor `unsealed` is given, or both are; or the file exists, or cannot be written.
    """
    plan = read_back(plan)
    path, report_stage = Path(file), progress or (lambda _: None)
    keys = _listed_keys(public_key)
    if (not keys) is not unsealed:
        raise ReleaseError(
            "sealed-or-unsealed",
            "Both a public key and --unsealed are given."
            if unsealed
            else "Neither a public key nor --unsealed is given.",
            "Counts are either sealed for a public key or written without a seal.",
            "Give the key (--public-key), or --unsealed.",
            "Nothing was counted.",
        )
    check_new_file(path)
    # raises before the data are opened, which may take long
    public_keys = [read_public_key(key) for key in keys]
    # the place and the key are checked first: to count and then fail would read confidential data for nothing
    _enter("opening the data", report_stage)
    counter = _opened(plan, data, table, None)
    _enter("counting", report_stage)
    sealing = functools.partial(seal, public_keys) if public_keys else None
    content = sealed(plan.order, counter, sealing, progress=lambda x: report_stage(f"counting, {x:.0%}"))
    replace_file(path, content, 0o600)  # for its owner only, sealed or not
    _log_step("counts-written", "wrote %s", file=os.fspath(file), plan=plan.hash)
    _report_dropped(counter, notice, dropped)
    return path


@checked(ReleaseError, "No file was written.")
def new_keys(file: str | os.PathLike[str], passphrase: Any = None) -> tuple[Path, Path]:
    """Make a pair of keys: the public key seals counts, and the private key opens them.

    Args:
        file: The file for the private key, which only its owner may read. The public key lies in the same folder, with
            the ending ".pub". Neither file must exist.
        passphrase: A text that protects the private key: without it the file opens no counts. None leaves it readable.

    Returns:
        The private file, then the public one.

    Raises:
        ReleaseError: A file exists, or cannot be written.
        DataError: The name of the file has 32 hexadecimal digits in a row or more, so that no command would take it.
        DataError: The passphrase is empty, there is too little memory to use it, or the package that makes keys is not
            installed (fitnoise[sealed]).
    """
    return write_keys(file, passphrase)[:2]


def write_keys(file: str | os.PathLike[str], passphrase: Any) -> tuple[Path, Path, str]:
    """Make a pair of keys as :func:`new_keys`; return the private file, the public one, and the key id."""
    private_file = Path(file)
    refuse_text_of_key(private_file.name)
    if not private_file.name:
        raise ReleaseError(
            "key-file-without-name",
            f"{str(file)!r} is no name of a file.",
            "",
            "Choose a name of a file.",
            UNWRITTEN,
        )
    public_file = private_file.with_name(f"{private_file.name}.pub")
    for path in (private_file, public_file):
        check_new_file(path)
    private, public = key_pair(passphrase)
    identity = key_id(read_public_key(public.encode()))
    # the private key first: counts that are sealed without it could never be opened
    replace_file(private_file, f"{private}\n".encode(), 0o600)
    try:
        replace_file(public_file, f"{public}\n".encode())
    except BaseException:  # an interruption, too
        private_file.unlink(missing_ok=True)  # a single key is of no use, and prevents the next try
        raise
    return private_file, public_file, identity


def _listed_keys(source: Key | Sequence[Key] | None) -> tuple[Key, ...]:
    """Return the keys of an argument that takes one or several."""
    if source is None or isinstance(source, (str, bytes, os.PathLike)):
        return () if source is None else (source,)
    return tuple(source)


def _private_keys(
    source: Key | Sequence[Key] | PrivateKeys | None, passphrase: Any, *, group_readable: bool
) -> PrivateKeys | None:
    """Return the given private keys; raise ReleaseError for a passphrase or a permission without a key."""
    if isinstance(source, PrivateKeys):  # the command has read them, to know whether to ask for the passphrase
        return source
    keys = _listed_keys(source)
    if not keys and (passphrase is not None or group_readable):
        raise ReleaseError(
            "private-key-missing",
            "A passphrase or --group-readable-key is given without a private key.",
            "Both belong to the private key of sealed counts.",
            "Give the private key (--key), or leave them out.",
            _NOTHING,
        )
    return PrivateKeys(keys, passphrase, group_readable=group_readable) if keys else None


def _opened(plan: Plan, data: Any, table: str | None, keys: PrivateKeys | None) -> Counter:
    """Return the opened data, with `table` in place of the plan's table if it is given.

    Raises:
        DataError: The data cannot be opened or do not fit the domain, or a table is named for sealed counts.
    """
    publication = plan.publication
    if table is not None and is_sealed(data):
        raise DataError(
            "table-of-sealed-counts",
            "--table is given for counts that were made elsewhere.",
            "These counts are of the table that was counted there.",
            "Remove --table.",
            _NOTHING,
            place="table",
        )
    source = publication.source if table is None else replace(publication.source, table=table)
    counter = open_counter(data, publication.domain.axes, source, publication.unit.bound, keys=keys)
    finding: FoundView | None = getattr(counter, "view", None)
    if finding is not None and finding.filters and plan.order.adjacency.fixes_size:
        raise DataError(
            "view-leaves-out-records",
            "The definition of the view leaves out records (WHERE), and the plan makes the number of records public.",
            "Where one record replaces another, either may be left out, so that a record is added or removed alone.",
            "Count the table, and state the condition in [data] where, or plan for neighbours that add or remove one.",
            _NOTHING,
            place="data.view",
        )
    if finding is not None and finding.word not in {ROW_WISE, source.view}:
        raise DataError(
            "view-promised-elsewhere",
            "The data were opened with a promise about a view that the plan does not state.",
            "The plan, the ledger and the release repeat this promise.",
            'State `view = "promised"` in [data], and plan again.',
            _NOTHING,
            place="data.view",
        )
    _log_step("data-opened", "opened data for %s", engine=type(counter).__name__)
    return counter


def _rehearse(
    plan: Plan,
    stage: Path | None,
    table_names: Sequence[str],
    supersedes: Sequence[Superseded],
    totals: TotalsFile | None,
) -> None:
    """Rebuild and write a release of zeros, so that an error costs nothing."""
    lengths = [n for part in plan.groups for n in part.strategy.lengths]
    blank = Release(
        plan,
        [np.zeros(n, dtype=np.int64) for n in lengths],
        outputs=[0] * len(plan.questions),
        supersedes=supersedes,
        public_totals=totals,
    )
    # properties are computed when they are read: each is read here once, so that its error comes before the charge
    _ = blank.finite
    for part, biased in zip(plan.groups, blank.biased, strict=True):
        _ = part.variances
        if biased is not None:
            _ = biased.simulated  # the simulation depends on the plan only, so it runs before the charge
        # one table of each form takes the steps of all; the tables with files take them below
        firsts = (int(part.decomposition.table_numbers(group)[0]) for group in part.decomposition.tables)
        names = {part.publication.workload.tables[i].name for i in firsts}
        for name in names - {*(() if stage is None else table_names)}:
            _ = blank[name]
    if stage is not None:
        blank._fill(stage, table_names, rehearsal=True)
