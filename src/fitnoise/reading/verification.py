"""Verification: anyone can recompute all claims of a plan or a release, without trust in its maker.

Verification has limits. A plan file carries no signature, so another *valid* plan is accepted, too; compare its hash
with the ledger. Anyone who can write all files of a release can write another release. The versions named in
release.json are unchecked statements of the maker. So is the ledger entry named there, if no ledger is given.
With a ledger, the charge is checked, and that the answers are those that the ledger names. No check shows that they
were drawn honestly, or that no other ledger was kept.

Trust: a mistake here can accept a release whose numbers or charge are false.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any, Protocol, final

import numpy as np
from numpy.typing import NDArray

from fitnoise.errors import FitnoiseError, ReleaseError
from fitnoise.kernel.arrays import Floats
from fitnoise.kernel.checks import describe_value
from fitnoise.kernel.profiles import ceil_dyadic
from fitnoise.kernel.units import Account
from fitnoise.mechanisms.documents import ROUNDING, disagreements, parse
from fitnoise.mechanisms.tables import TablePart
from fitnoise.messages import Message, Value, ValueKind
from fitnoise.planning.accounting import LedgerLine, UnitPrice
from fitnoise.planning.files import read_text
from fitnoise.planning.plan import Plan
from fitnoise.reading.combining import Combination, check_tables, read_combination
from fitnoise.reading.derived_tables import MAX_FILES_IN_MESSAGE
from fitnoise.reading.description import (
    EntryReference,
    Superseded,
    TotalsReference,
    account_message,
    describe,
    parse_superseded,
)
from fitnoise.reading.integer_tables import IntegerTables, read_integer_tables
from fitnoise.reading.means import file_stubs
from fitnoise.reading.microdata import InventedRecords, StatedRecords
from fitnoise.reading.parquet import RowGroups
from fitnoise.reading.parquet import read as read_columns
from fitnoise.reading.release import (
    ANSWERS,
    GAP,
    MEASUREMENTS,
    OUTPUTS,
    TOTALS,
    Charge,
    Release,
    as_drawn,
    cell_stubs,
    drawn_digest,
    finite_csv,
    histograms,
    period_digests,
    to_write,
)
from fitnoise.reading.release_files import (
    DESCRIPTION,
    Columns,
    csv_pieces,
    extent,
    files_fault,
    links,
    matched,
    number_columns,
    says,
    table_endings,
    to_json,
    unfinished,
)
from fitnoise.request.arguments import checked
from fitnoise.request.publication import Goal

_UNVERIFIED = "Nothing was verified."

ITERATIVE_TOLERANCE = 1e-6
"""Allowed difference of a biased value, as part of its standard error."""

SIMULATED = 0.01
"""Allowed relative difference of two simulations of one error: the estimates in them are iterative."""


@final
@dataclass(frozen=True)
class Check:
    """One claim, with its name, its result and the finding."""

    claim: Message
    holds: bool
    finding: Message


@final
@dataclass(frozen=True)
class Verification:
    """All claims of a plan or release. `ok` is true if every claim holds.

    Attributes:
        checks: One for each claim.
        unchecked: Things that no check covers: the charge where no ledger was given, and files made from the
            release that lie elsewhere.
    """

    checks: tuple[Check, ...]
    unchecked: tuple[Message, ...] = ()

    @property
    def ok(self) -> bool:
        """True if every claim holds."""
        return all(c.holds for c in self.checks)


def checks_of_files(files: Sequence[tuple[Path, tuple[Check, ...]]]) -> tuple[Check, ...]:
    """Return the checks of some files; if there are several files, each finding names its file."""
    if len(files) < 2:
        return files[0][1]
    return tuple(replace(check, finding=_in_file(path, check.finding)) for path, checks in files for check in checks)


def _in_file(path: Path, finding: Message) -> Message:
    values = (Value("file", str(path)), Value("finding", finding, ValueKind.MESSAGE))
    return Message("report.finding.in_file", values)


CHARGE = Message("report.unchecked.charge")

DERIVED = Message("report.unchecked.derived")

REPORT = Message("report.unchecked.report")

EXPORT = Message("report.unchecked.export")

MICRODATA = Message("report.unchecked.microdata")

RECORD = Message("report.unchecked.record")

UNCHECKED = (CHARGE, DERIVED, MICRODATA, REPORT, EXPORT, RECORD)
"""Things that the checks of a release directory do not cover, each with the option that checks it."""


class VerifiableEntry(Charge, LedgerLine, Protocol):
    """An entry of a ledger, with the fields that are compared with a release."""

    @property
    def prices(self) -> Mapping[Account, UnitPrice]:
        """The cost for every account that the entry names, its own account first."""


class VerifiableLedger(Protocol):
    """A ledger with the methods that are used here, such as :class:`fitnoise.Ledger`."""

    def entries(self) -> Sequence[VerifiableEntry]:
        """Return every entry, oldest first, after the ledger has verified them."""


@checked(ReleaseError, "Nothing was verified.")
def verify(
    path: str | os.PathLike[str],
    *,
    ledger: VerifiableLedger | str | os.PathLike[str] | None = None,
    integers: str | os.PathLike[str] | None = None,
    combination: str | os.PathLike[str] | None = None,
    with_releases: Sequence[str | os.PathLike[str]] = (),
    microdata: str | os.PathLike[str] | None = None,
) -> Verification:
    """Recompute every claim of a plan file or a release directory.

    Args:
        path: The path of plan.json, or of a release directory.
        ledger: The ledger with the charge of the release: an open :class:`fitnoise.Ledger`, or its file, which
            `fitnoise.verify` opens.
        integers: A folder of integer tables made from the release, or from it and others
            (:func:`fitnoise.make_integer_tables`).
        combination: A folder of tables made from the release and others (:func:`fitnoise.combine`).
        with_releases: The directories of these other releases, which are verified in the same way, but without the
            ledger.
        microdata: A file of records made from the integer tables (:func:`fitnoise.microdata`), whose document lies next
            to it. Needs `integers`.

    Returns:
        One check for each claim. A claim that fails raises nothing. Integer tables and a combination are checked only
        if every claim of the release holds. Microdata are checked only if every claim of the integer tables holds.

    Raises:
        ReleaseError: There is no such file or directory. Or a ledger, integer tables or a combination are given for
            something that is not a release. Or other releases are given without tables that were made of them. Or
            microdata are given without integer tables, or an argument has another type.
        LedgerError: The ledger cannot be read, or was altered.

    **Guarantees**
        * a plan is accepted only if its integers have exactly the stated cost, and its weights prove its bound and gap.
          Every recomputed variance must be within its target (a relative excess of 1e-9 is allowed for floating point).
          With a budget, targets are weights instead. The cost must then be at most the budget, and at least 1 − 10⁻⁶
          times the budget. A cap must be kept;
        * a release is accepted only if all of the following hold. It has the files of a release and no others. Its
          release.json follows from its plan. No noisy answer was altered since it was written. The Parquet tables
          follow from the answers and the plan (up to 1e-9 of value and standard error). Biased values may differ by
          1e-6 of the standard error, and simulated errors by 1 %. The CSV files are those tables, digit by digit;
        * a Parquet file is accepted only if its bytes are those that its columns imply. It then has no statistics,
          indexes or second copies of a page, from which readers could show other numbers;
        * a folder that contains a symbolic link is not accepted. A hard link is a file like any other;
        * a release of a plan with public totals is accepted only with the file of these totals. release.json, and the
          entry of a given ledger, must name its SHA-256. The tables follow from the answers and this file. No check
          shows that the totals are right, or were public before;
        * with a ledger, a release is accepted only if the ledger has the entry that release.json names, with its
          digest. The entry must be a charge for the release's plan, to the plan's account, of the plan's cost. A later
          entry must name the SHA-256 of the noisy answers and outputs for that charge. A release that names no entry is
          not accepted;
        * a release that supersedes earlier ones is accepted only if each entry comes before the one that supersedes it.
          With a ledger, the ledger must have these entries, for the same account and with these answers. Each later
          charge must name the earlier one. Without a ledger, the chain is a statement of the publisher. The reasons
          always are;
        * integer tables are accepted only with all their releases, and only if all of the following hold. Their
          multipliers prove that the tables before rounding are the nearest consistent nonnegative ones. Rules of order
          restrict these tables further (1e-9 of a standard error is allowed). The numbers are nonnegative integers
          that add up, agree and follow these rules. Each is the floor or the ceiling of its number before
          rounding (where the solver finds no such numbers, up to three away). Their squared distance is the least that
          a solver finds again (1e-7 for each number is allowed). The errors stated as simulated are simulated again, to
          0.01 records plus 1 %. Their files are these tables and no others, digit by digit;
        * microdata are accepted only with their accepted integer tables. Their tables, counted again, must have the
          stated distances (1e-9 of a number is allowed). The file must be, byte for byte, what fitnoise writes for its
          records, with the stated SHA-256. The search is not repeated: the number of batches and the time are
          unchecked statements of the maker;
        * a combination is accepted only with all its releases, and only if all of the following hold. It is of these
          releases and no others, by their plans and answers. Its tables are the recomputed unbiased ones of least
          variance (1e-9 of a number, and its last digit, are allowed). It has no other files. Only the publisher states
          that the records were the same each time: no file can prove it;
        * a period of a series is accepted only if the complete plan is. All of the above must hold for its tables up to
          that period. With a ledger, the entry must state that this period was drawn. It or an entry before it must be
          the charge of the series;
        * a folder in which a release is still being written, or was when its process was killed, is not accepted.

    Files made from the release that lie elsewhere are not covered, nor is the charge where no ledger is given.
    `Verification.unchecked` names them. :func:`fitnoise.verify_export` checks workbooks, LaTeX files and data packages.
    """
    path = Path(path)
    others = [with_releases] if isinstance(with_releases, str | os.PathLike) else list(with_releases)
    if not all(isinstance(x, str | os.PathLike) for x in others):
        raise ReleaseError(
            "wrong-other-releases",
            f"The argument with_releases is {describe_value(with_releases)}.",
            "It must be a list of release directories.",
            "Give a list of paths.",
            _UNVERIFIED,
            place="with_releases",
        )
    if others and combination is None and integers is None:
        raise ReleaseError(
            "other-releases-without-tables",
            "Other releases are given, and no tables that were made of them.",
            "Other releases are verified with the combination or the integer tables that were made of them.",
            "Give these tables, or remove the other releases.",
            _UNVERIFIED,
            place="with_releases",
        )
    if microdata is not None and integers is None:
        raise ReleaseError(
            "microdata-without-integer-tables",
            "Microdata are given, and no integer tables.",
            "Microdata are verified with the integer tables that they were made of.",
            "Give the integer tables, or remove the microdata.",
            _UNVERIFIED,
            place="microdata",
        )
    if isinstance(ledger, str | os.PathLike) or (ledger is not None and not hasattr(ledger, "entries")):
        raise ReleaseError(
            "ledger-not-open",
            f"The ledger is {type(ledger).__name__}.",
            "A release is verified against an open ledger.",
            "Open it: fitnoise.Ledger(file).",
            _UNVERIFIED,
            place="ledger",
        )
    if path.is_dir():
        result = _verify_release(path, None if ledger is None else ledger.entries())
        # Integer tables and combinations of a release that fails prove nothing, so their claims are not tried.
        if result.ok:
            result = _with_others(result, [Path(x) for x in others])
        if integers is not None and result.ok:
            releases = [Release.read(x) for x in (path, *others)]
            checks = _verify_integer_tables(releases, Path(integers), None if microdata is None else Path(microdata))
            result = Verification((*result.checks, *checks.checks))
        if combination is not None and result.ok:
            result = _verify_combined(result, [path, *map(Path, others)], Path(combination))
        derived = integers if combination is None else combination
        options = {CHARGE: ledger, DERIVED: derived, MICRODATA: microdata}
        return replace(result, unchecked=tuple(x for x in UNCHECKED if options.get(x) is None))
    if path.is_file():
        if any(x is not None for x in (ledger, integers, combination)):
            raise ReleaseError(
                "plan-in-place-of-release",
                f"{path.name!r} is a plan.",
                "Ledger, integer tables and combination belong to a release.",
                "Give a release directory, or verify the plan without them.",
                _UNVERIFIED,
            )
        return _verify_plan(read_text(path))[0]
    raise ReleaseError(
        "nothing-to-verify",
        f"There is no plan or release {path.name!r}.",
        "",
        "Check the path.",
        _UNVERIFIED,
    )


def error_fault(error: FitnoiseError) -> Message:
    """Return the fault of a claim whose check raised an error, in the words of the error."""
    return Message("report.fault.error", (Value("reason", error.reason),))


def _count(text: str, count: int) -> Message:
    """Return a message with one count."""
    return Message(text, (Value("count", count, ValueKind.COUNT),))


def _cost(text: str, rho: float | Fraction, *values: Value) -> Message:
    """Return a message with a recomputed cost, and more values."""
    return Message(text, (Value("rho", float(rho), ValueKind.RECOMPUTED), *values))


class _Checklist:
    def __init__(self) -> None:
        self.checks: list[Check] = []

    def add(self, claim: str, test: Callable[[], Message | None], good: Callable[[], Message]) -> bool:
        """Record a claim and return its result.

        claim: The id of the claim.
        test: Returns None if the claim holds, or the fault.
        good: Returns the finding of a claim that holds.

        If one of the two raises an error, the claim fails.
        """
        try:
            with np.errstate(all="ignore"):
                problem = test()
                finding = good() if problem is None else problem
        except FitnoiseError as error:
            problem = finding = error_fault(error)
        except Exception as error:  # an altered document can break any computation
            problem = finding = Message("report.fault.uncheckable", (Value("error", type(error).__name__),))
        self.checks.append(Check(Message(claim), problem is None, finding))
        return problem is None

    def done(self) -> Verification:
        return Verification(tuple(self.checks))


# --- plans ----------------------------------------------------------------------------------------------


def _verify_plan(text: str) -> tuple[Verification, Plan | None]:
    """Return the claims of a plan document, and the plan if it can be read."""
    log = _Checklist()
    read: list[Plan] = []
    exactly = Message("report.finding.exactly")
    if not log.add("report.claim.plan", lambda: read.append(Plan.from_json(text)), lambda: exactly):
        return log.done(), None
    (plan,) = read
    log.add(
        "report.claim.document",
        lambda: _check_document(plan, text),
        lambda: Message("report.finding.hash", (Value("hash", plan.hash),)),
    )
    for part in plan.groups:
        log.add("report.claim.gap", partial(_check_gap, part), partial(_describe_gap, part))
        log.add("report.claim.targets", partial(_check_targets, part), partial(_describe_targets, part))
    if plan.questions:
        log.add(
            "report.claim.finite",
            lambda: _check_finite(plan),
            lambda: _describe_finite(plan),
        )
    log.add("report.claim.price", lambda: _check_price(plan), lambda: _cost("report.finding.price", plan.rho))
    return log.done(), plan


def _check_document(plan: Plan, text: str) -> Message | None:
    stated = parse(text)
    other = disagreements(stated, parse(plan.to_json()))
    if other:
        return _disagreement("report.fault.document", other)
    # a plan has one text: another spelling of equal values could hide a difference from a reader of the file
    canonical = json.dumps(stated, separators=(",", ":"), allow_nan=False) + "\n"
    return None if canonical == text else Message("report.fault.plan_form")


def _disagreement(text: str, places: Sequence[str]) -> Message:
    """Return the fault of a document that differs at these places; it names the first ones."""
    return Message(text, (Value("places", places[:5]),))


def _check_gap(part: TablePart) -> Message | None:
    requested, proven = part.publication.gap, part.gap
    if requested is not None and proven > requested + 1e-12:  # allowed difference of the sums of a bound
        values = (Value("requested", requested, ValueKind.GAP), Value("proven", proven, ValueKind.GAP))
        return Message("report.fault.gap", values)
    return None


def _describe_gap(part: TablePart) -> Message:
    values = [
        Value("value", part.objective_value, ValueKind.RECOMPUTED),
        Value("bound", part.bound, ValueKind.RECOMPUTED),
        Value("gap", part.descriptions.describe_gap(), ValueKind.MESSAGE),
    ]
    if not part.unbiased_bound:
        return Message("report.finding.gap", tuple(values))
    values.append(Value("least", part.unbiased_bound, ValueKind.NUMBER))
    if part.intervals.normal:
        return Message("report.finding.gap_and_rho", tuple(values))
    universal = Value("universal", part.universal_epsilon, ValueKind.NUMBER)
    return Message("report.finding.gap_and_epsilon", (*values, universal))


def _check_finite(plan: Plan) -> Message | None:
    """Return the fault if a mechanism costs more than its question allows. Reading the plan proved each mechanism."""
    for part in plan.questions:
        if part.exact_epsilon > part.query.epsilon:
            return Message("report.fault.finite_cost", (Value("question", part.query.name, ValueKind.CODE),))
    return None


def _describe_finite(plan: Plan) -> Message:
    epsilon = Value("epsilon", float(sum(q.exact_epsilon for q in plan.questions)), ValueKind.RECOMPUTED)
    return Message("report.finding.finite", (Value("count", len(plan.questions), ValueKind.COUNT), epsilon))


def _check_targets(part: TablePart) -> Message | None:
    if part.publication.budget is None and not part.relaxation <= 1 + ROUNDING:
        return Message("report.fault.target", (Value("factor", part.relaxation, ValueKind.FINE),))
    return None


def _describe_targets(part: TablePart) -> Message:
    is_total = part.publication.objective.goal is Goal.TOTAL_ERROR
    if part.publication.budget is not None:
        factor = Value("factor", part.relaxation, ValueKind.NUMBER)
        return Message("report.finding.budget_total" if is_total else "report.finding.budget_worst", (factor,))
    ratio = Value("factor", part.relaxation, ValueKind.SHARE_OF_TARGET)
    return Message("report.finding.target_total" if is_total else "report.finding.target_worst", (ratio,))


def _check_price(plan: Plan) -> Message | None:
    """Return the fault of a cost that exceeds a budget or cap, or is more than a millionth below a budget."""
    for limit, loss in plan.order.against_limits():
        counted = limit.relative_cost(loss)
        # a limit of pure ε is stated as ρ = ε²/2, and so is the cost that is compared with it
        spent = counted.rho if limit.epsilon is None else (counted.epsilon or Fraction(0)) ** 2 / 2
        limit_value = Value("most", float(limit.rho), ValueKind.RECOMPUTED)
        if not limit.allows(loss):
            return _cost(
                "report.fault.over_budget" if limit.name == "budget" else "report.fault.over_cap", spent, limit_value
            )
        if limit.name == "budget" and spent < limit.rho * (1 - Fraction(1, 10**6)):
            return _cost("report.fault.unspent", spent, limit_value)
    return None


# --- releases -------------------------------------------------------------------------------------------


def _verify_release(folder: Path, entries: Sequence[VerifiableEntry] | None) -> Verification:
    """Return the claims of a release directory, and with the entries of a ledger those of its charge."""
    if problem := unfinished(folder):
        return Verification((Check(Message("report.claim.finished"), False, error_fault(problem)),))
    try:
        text = read_text(folder / "plan.json")
    except ReleaseError as error:
        return Verification((Check(Message("report.claim.has_plan"), False, error_fault(error)),))
    of_plan, planned = _verify_plan(text)
    if planned is None:
        return of_plan
    log = _Checklist()
    log.checks.extend(of_plan.checks)
    plans: list[Plan] = []
    if planned.publication.series is None:
        plans.append(planned)
    elif not log.add(
        "report.claim.series",
        lambda: plans.append(as_drawn(planned, read_text(folder / DESCRIPTION))),
        lambda: _part("report.finding.periods", len(plans[0].periods), len(planned.periods)),
    ):
        return log.done()
    (plan,) = plans
    # each test leaves its result in a list, which stays empty if the claim fails
    read: list[Release] = []
    same: set[str] = set()
    table_lists: list[tuple[str, ...]] = []
    log.add(
        "report.claim.written",
        lambda: table_lists.append(_written_tables(plan, folder)),
        lambda: _part(
            "report.finding.written", len(table_lists[0]), sum(len(p.workload.tables) for p in plan.publication.groups)
        ),
    )
    # no names if the claim above failed, and then the release is not accepted in any case
    names = [name for tables in table_lists for name in tables]
    files = [file for name in names for file in _table_files(plan, folder, name)]
    with_csv = [file for file in files if ".csv" in file.endings]
    log.add(
        "report.claim.files",
        lambda: _check_files(plan, folder, files),
        lambda: _count("report.finding.files", len(_expected(plan, files)) - 1),
    )
    log.add(
        "report.claim.description",
        lambda: check_description(plan, read_text(folder / DESCRIPTION), names),
        lambda: Message("report.finding.description"),
    )
    is_charged = False
    if entries is not None:
        charged: list[Message] = []
        is_charged = log.add(
            "report.claim.charge",
            lambda: _check_charge(plan, read_text(folder / DESCRIPTION), entries, charged.append),
            lambda: charged[0],
        )
    _add_revisions(log, plan, folder, entries if is_charged else None)
    if log.add(
        "report.claim.answers",
        lambda: read.append(Release.read(folder)),
        lambda: _count("report.finding.integers", sum(p.noisy_answers for p in plan.groups)),
    ):
        if entries is not None and is_charged:
            log.add(
                "report.claim.ledger_answers",
                lambda: _check_answers(read[0], entries),
                lambda: Message("report.finding.digest"),
            )
        log.add(
            "report.claim.parquet",
            lambda: _check_parquet(read[0], names, files, same),
            lambda: _count("report.finding.rebuilt", len(names)),
        )
        for i in histograms(plan):
            log.add(
                "report.claim.histogram",
                partial(_check_histogram, folder, read[0], i),
                partial(_describe_histogram, read[0], i),
            )
        if plan.questions:
            log.add(
                "report.claim.outputs",
                lambda: None if says(folder / ANSWERS, finite_csv(read[0])) else _file_fault(ANSWERS),
                lambda: _count("report.finding.outputs", len(plan.questions)),
            )
    log.add(
        "report.claim.csv",
        lambda: _check_csv([file for file in with_csv if file.base.name not in same]),
        lambda: _count("report.finding.csv", len({file.table for file in with_csv})),
    )
    return log.done()


def _add_revisions(log: _Checklist, plan: Plan, folder: Path, entries: Sequence[VerifiableEntry] | None) -> None:
    """Add the claims about earlier releases that a release supersedes, and about later ones that supersede it.

    Args:
        log: The list of claims. It gets none if release.json and the ledger know no other release.
        plan: The plan of the release.
        folder: The directory of the release.
        entries: All entries of the ledger that charged the release; None if no such ledger is given.
    """
    try:
        stated = parse(read_text(folder / DESCRIPTION))
        reference, chain = EntryReference.parse(stated), parse_superseded(stated)
    except (ReleaseError, ValueError):  # the claim of release.json reports this
        return
    if reference is None:  # no charge, so no other release names it
        return
    later, revisions = {reference.digest}, []
    for e in entries or ():  # in the order of the ledger: a correction comes after what it corrects
        if e.detail.get("supersedes") in later:
            later.add(e.digest)
            revisions.append(e.sequence)
    named_releases = [e for e in entries or () if e.digest == reference.digest and "supersedes" in e.detail]
    if chain or named_releases:
        text_id = "report.finding.superseded_stated" if entries is None else "report.finding.superseded"
        releases = Value("releases", [x.message() for x in chain], ValueKind.SENTENCES)
        log.add(
            "report.claim.supersedes",
            lambda: None if entries is None else _check_superseded(plan, reference, chain, entries),
            lambda: Message(text_id, (releases,)),
        )
    if revisions:
        log.add(
            "report.claim.revised",
            lambda: None,
            lambda: Message("report.finding.revised", (Value("entries", revisions),)),
        )


def _check_superseded(
    plan: Plan, reference: EntryReference, chain: Sequence[Superseded], entries: Sequence[VerifiableEntry]
) -> Message | None:
    """Return why the earlier releases of a release are not those that the ledger names; None if they are."""
    by_digest = {e.digest: e for e in entries}
    answers = {e.detail["charge"]: e.detail["answers"] for e in entries if e.kind == "answers"}
    for earlier in chain:
        entry_value, entry = Value("entry", earlier.entry.sequence), by_digest.get(earlier.entry.digest)
        if entry is None or entry.sequence != earlier.entry.sequence:
            return Message("report.fault.entry_digest", (entry_value,))
        if entry.account != plan.order.account or answers.get(entry.digest) != earlier.answers:
            return Message("report.fault.superseded_release", (entry_value,))
    links = [reference, *(x.entry for x in chain)]
    for entry_reference, following in itertools.zip_longest(links, links[1:]):
        stated = by_digest[entry_reference.digest].detail.get("supersedes")
        if stated != (None if following is None else following.digest):
            return Message("report.fault.superseded_link", (Value("entry", entry_reference.sequence),))
    return None


def _verify_integer_tables(releases: Sequence[Release], folder: Path, microdata: Path | None) -> Verification:
    """Return the claims of integer tables, and if all of them hold, those of microdata made from the tables."""
    log, read = _Checklist(), list[IntegerTables]()
    if log.add(
        "report.claim.integers",
        lambda: read.append(read_integer_tables(releases[0], folder, releases[1:])),
        lambda: _count("report.finding.tables", len(read[0])),
    ):
        (tables,) = read
        log.add(
            "report.claim.integers_nearest_ordered" if tables.at_most else "report.claim.integers_nearest",
            tables.check,
            lambda: Message(
                "report.finding.nearest",
                (Value("residual", tables.residual, ValueKind.GAP), Value("reach", tables.reach, ValueKind.PEOPLE)),
            ),
        )
        if tables.at_most:
            log.add(
                "report.claim.integers_order",
                tables.check_order,
                lambda: _count("report.finding.rules", len(tables.at_most)),
            )
        log.add(
            "report.claim.integers_rounded_ordered" if tables.at_most else "report.claim.integers_rounded",
            tables.check_rounded,
            lambda: Message("report.finding.rounded"),
        )
        if tables.simulations:
            log.add(
                "report.claim.integers_errors",
                tables.check_simulated,
                lambda: _count("report.finding.simulations", tables.simulations),
            )
        log.add(
            "report.claim.integers_files",
            lambda: tables.check_files(folder),
            lambda: _count("report.finding.files", len(tables) + 1),
        )
        if microdata is not None and log.done().ok:
            log.checks.extend(_verify_microdata(tables, microdata).checks)
    return log.done()


def _verify_microdata(tables: IntegerTables, path: Path) -> Verification:
    """Return the claims of microdata."""
    log, read = _Checklist(), list[StatedRecords]()
    if log.add(
        "report.claim.microdata",
        lambda: read.append(StatedRecords(tables, path)),
        lambda: _count("report.finding.records", read[0].space.records),
    ):
        (stated,) = read
        log.add(
            "report.claim.microdata_tables",
            stated.check_tables,
            lambda: _counted_tables(stated.records),
        )
        log.add("report.claim.microdata_file", stated.check_file, lambda: Message("report.finding.export_file"))
    return log.done()


def _counted_tables(records: InventedRecords) -> Message:
    """Return the number of tables that were counted again, and the share of numbers outside if the records are far."""
    count = Value("count", len(records.space.targets), ValueKind.COUNT)
    if not records.is_far:
        return Message("report.finding.tables", (count,))
    fraction = Value("share", records.share_outside, ValueKind.PROPORTION)
    return Message("report.finding.tables_far", (count, fraction))


def _with_others(verification: Verification, others: Sequence[Path]) -> Verification:
    """Return the claims so far, and those of further releases."""
    checks = list(verification.checks)
    for other in others:
        # the claims of each further release name it, since several releases make the same claims
        checks += (replace(c, claim=_claim_of(other, c.claim)) for c in _verify_release(other, None).checks)
    return Verification(tuple(checks))


def _verify_combined(verification: Verification, folders: Sequence[Path], folder: Path) -> Verification:
    """Return the claims so far, and those of the combination of all releases."""
    log, combinations = _Checklist(), list[Combination]()
    log.checks.extend(verification.checks)
    if log.add(
        "report.claim.combination",
        lambda: combinations.append(read_combination([Release.read(x) for x in folders], folder)),
        lambda: _combined(combinations[0]),
    ):
        log.add(
            "report.claim.combined_tables",
            lambda: check_tables(combinations[0], folder),
            lambda: Message(
                "report.finding.recomputed",
                (
                    Value("tables", len(combinations[0]), ValueKind.COUNT),
                    Value("count", len(combinations[0]) + 1, ValueKind.COUNT),
                ),
            ),
        )
    return log.done()


def _combined(combination: Combination) -> Message:
    """Return the finding that names the releases of a combination, and its rules with their assumption."""
    count, rules = len(combination.releases), len(combination.impossible)
    values = (Value("count", count, ValueKind.COUNT), *([Value("rules", rules, ValueKind.COUNT)] if rules else []))
    return Message("report.finding.given" if rules else "report.finding.releases", values)


def _claim_of(folder: Path, claim: Message) -> Message:
    """Return a claim about the release in a folder, which the message names."""
    return Message("report.claim.of_release", (Value("release", folder.name), Value("claim", claim, ValueKind.MESSAGE)))


def _part(text: str, count: int, total: int) -> Message:
    """Return a message with a count and the number of all."""
    return Message(text, (Value("count", count, ValueKind.COUNT), Value("all", total, ValueKind.COUNT)))


def _file_fault(name: str) -> Message:
    """Return the fault of a file that differs from what fitnoise writes."""
    return Message("report.fault.file", (Value("file", name, ValueKind.CODE),))


def _check_files(plan: Plan, folder: Path, files: Sequence[_TableFile]) -> Message | None:
    expected = _expected(plan, files)
    # the folder of a stranger may have any number of files: a few more than expected are enough for the fault
    paths = list(itertools.islice(folder.rglob("*"), len(expected) + MAX_FILES_IN_MESSAGE))
    there = {p.relative_to(folder).as_posix() for p in paths}
    if problem := links(folder, paths):  # a link would pass as a file, and its content lies elsewhere
        return problem
    return files_fault(expected, there)


def _expected(plan: Plan, files: Sequence[_TableFile]) -> set[str]:
    """Return the files and folders of a release, with the given files of its tables."""
    expected = {"plan.json", DESCRIPTION, "tables"} | ({MEASUREMENTS} if plan.groups else set())
    expected |= {OUTPUTS, ANSWERS} if plan.questions else set()
    expected |= set() if plan.publication.public is None else {TOTALS}
    expected |= {f"{base}.{end}" for base in histograms(plan).values() for end in ("csv", "parquet")}
    return expected | {f"tables/{file.base.name}{ending}" for file in files for ending in file.endings}


def _written_tables(plan: Plan, folder: Path) -> tuple[str, ...]:
    """Return the tables that have files, from release.json."""
    stated = parse(read_text(folder / DESCRIPTION))["written"]
    if stated == "all":
        return tuple(n for p in plan.publication.groups for n in p.workload.tables.names)
    # `stated` is a stranger's list: `to_write` refuses unknown and repeated names, and the comparison another order
    names = to_write(plan, stated)
    if list(names) != stated:
        raise ReleaseError(
            "tables-out-of-order",
            "release.json does not name the tables with files in the order of the workload.",
            "",
            "Bring the file back as it was written.",
            _UNVERIFIED,
            place="written",
        )
    return names


def check_description(plan: Plan, document: str, table_names: Sequence[str]) -> Message | None:
    """Return the fault of the text of a release.json, given its plan and the tables that have files."""
    stated = parse(document)
    implied = describe(
        plan, table_names, EntryReference.parse(stated), parse_superseded(stated), TotalsReference.parse(stated)
    )
    if isinstance(stated, dict) and isinstance(stated.get("versions"), dict):
        # no check can show which versions made a release, so any texts are accepted there
        implied["versions"] = _versions(stated["versions"], implied["versions"])
    other = disagreements(stated, implied)
    if other:
        return _disagreement("report.fault.description", other)
    # equal content in another form is refused, too: one release has one release.json, to the byte
    return None if to_json(stated) == document else Message("report.fault.description_form")


def _check_charge(
    plan: Plan, document: str, entries: Sequence[VerifiableEntry], report: Callable[[Message], None]
) -> Message | None:
    """Return the fault of the charge of a release; None if it is charged.

    Args:
        plan: The plan of the release; of a series, that of its first periods.
        document: The text of its release.json.
        entries: All entries of the ledger, oldest first.
        report: A function that receives the finding, if an entry of this number and digest exists.
    """
    stated = EntryReference.parse(parse(document))
    if stated is None:
        return Message("report.fault.no_entry")
    entry_value = Value("entry", stated.sequence)
    if stated.sequence > len(entries):
        return Message("report.fault.entry_absent", (entry_value, Value("count", len(entries))))
    entry = entries[stated.sequence - 1]
    if entry.digest != stated.digest:
        return Message("report.fault.entry_digest", (entry_value,))
    if plan.full_series is None:
        report(_cost("report.finding.entry", entry.rho, entry_value))
        return _other_charge(plan, entry) or _other_totals(document, entry) or _other_statements(stated, entries)
    # the first draw of a series charges all its periods; the later ones only state what they drew
    start = next((e for e in entries if _is_series_charge(plan, e)), None)
    if start is None or start.sequence > entry.sequence:
        return Message("report.fault.no_series_charge", (entry_value,))
    report(_cost("report.finding.series_entry", start.rho, entry_value, Value("start", start.sequence)))
    return _other_charge(plan.full_series, start) or _other_period(plan, entry) or _other_statements(stated, entries)


def _check_answers(release: Release, entries: Sequence[VerifiableEntry]) -> Message | None:
    """Return why the answers of a release are not those that a ledger names for its charge; None if they are."""
    # every period of a series has a charge, or an entry that states its draw; a period that was drawn again has several
    plan, stated = (release.plan, {e.detail["charge"]: e.detail["answers"] for e in entries if e.kind == "answers"})
    plan_entries = [e for e in entries if e.account == plan.order.account and e.detail.get("plan") == plan.hash]
    digests = [drawn_digest(release)] if plan.full_series is None else period_digests(release)
    for period, digest in enumerate(digests, 1):
        charges = [
            e for e in plan_entries if plan.full_series is None or e.detail.get("series", {}).get("period") == period
        ]
        # earlier periods may have been drawn again; of the last one, only the named entry stands for this release
        if release.entry is not None and period == len(digests):
            charges = [e for e in charges if e.digest == release.entry.digest]
        if digest not in {stated.get(e.digest) for e in charges}:
            if plan.full_series is None:
                return Message("report.fault.answers")
            return Message("report.fault.period_answers", (Value("period", plan.periods[period - 1]),))
    return None


def _is_series_charge(plan: Plan, entry: VerifiableEntry) -> bool:
    """Return True if an entry is the charge of a series, which charges all its periods."""
    is_charge = entry.kind == "charge" and entry.detail.get("plan") == plan.hash and entry.account == plan.order.account
    return is_charge and entry.detail.get("series", {}).get("period") == 1


def _other_period(plan: Plan, entry: VerifiableEntry) -> Message | None:
    """Return why an entry does not state the draw of the last period of a series; None if it does."""
    statement = entry.detail.get("plan"), entry.account, entry.detail.get("series", {}).get("period")
    if entry.kind not in ("charge", "period") or statement != (plan.hash, plan.order.account, len(plan.periods)):
        period = Value("period", plan.periods[-1])
        return Message("report.fault.period_undrawn", (Value("entry", entry.sequence), period))
    return None


def refer_to_entry(entry: VerifiableEntry, entries: Sequence[VerifiableEntry]) -> EntryReference:
    """Return the reference to an entry, with the unprotected numbers of earlier entries of its account.

    Args:
        entry: The entry.
        entries: All entries of its ledger, oldest first.
    """
    before = (e for e in entries[: entry.sequence - 1] if e.kind == "charge" and "unprotected" in e.detail)
    same = (e for e in before if e.account.source == entry.account.source)
    # A series is charged with its first period.
    charges = (e for e in entries if e.kind == "charge" and e.account == entry.account)
    of_series = next((e for e in charges if e.detail.get("plan") == entry.detail.get("plan")), entry)
    view = (entry if entry.kind == "charge" else of_series).detail.get("view")
    return EntryReference(
        entry.sequence, entry.digest, tuple((e.sequence, tuple(e.detail["unprotected"])) for e in same), view
    )


def _other_charge(plan: Plan, entry: VerifiableEntry) -> Message | None:
    """Return why an entry is not the charge of a release of this plan; None if it is."""
    entry_value = Value("entry", entry.sequence)
    if entry.kind != "charge":
        return Message("report.fault.entry_kind", (entry_value, Value("kind", entry.kind, ValueKind.CODE)))
    if entry.detail.get("plan") != plan.hash:
        return Message("report.fault.other_plan", (entry_value,))
    if entry.account != plan.order.account:
        source = Value("source", entry.account.source, ValueKind.CODE)
        return Message(
            "report.fault.other_account",
            (entry_value, source, Value("account", account_message(entry.account), ValueKind.MESSAGE)),
        )
    # a ledger sums fractions with powers of 2 below, so it charges ρ rounded up to one of these
    if entry.epsilon != plan.loss.epsilon or entry.rho != ceil_dyadic(plan.loss.rho):
        return _cost("report.fault.other_cost", entry.rho, entry_value, Value("cost", plan.rho, ValueKind.RECOMPUTED))
    for account, price in list(entry.prices.items())[1:]:
        cost = plan.order.cost(account.unit)
        if cost is None or price.rho < ceil_dyadic(cost.rho):  # a bound may be charged, which is more than the cost
            unit = Value("account", account_message(account), ValueKind.MESSAGE)
            return _cost("report.fault.unit_cost", price.rho, entry_value, unit)
    return None


def _other_statements(stated: EntryReference, entries: Sequence[VerifiableEntry]) -> Message | None:
    """Return why the word for a view or earlier unprotected numbers are not those of the ledger; None if they are."""
    recorded = refer_to_entry(entries[stated.sequence - 1], entries)
    if stated.view != recorded.view:
        return Message("report.fault.view", (Value("entry", stated.sequence),))
    return None if stated == recorded else Message("report.fault.unprotected", (Value("entry", stated.sequence),))


def _other_totals(document: str, entry: VerifiableEntry) -> Message | None:
    """Return why an entry does not name the file of public totals of a release.json; None if it does."""
    totals = TotalsReference.parse(parse(document))
    if entry.detail.get("public_totals") == (None if totals is None else totals.sha256):
        return None
    return Message("report.fault.other_totals", (Value("entry", entry.sequence),))


def _versions(stated: Mapping[str, Any], versions: Mapping[str, str]) -> dict[str, str]:
    """Return the versions of the software that made a release: the maker's unchecked statements, if texts."""
    return {k: stated[k] if isinstance(stated.get(k), str) else versions[k] for k in versions}


@dataclass(frozen=True)
class _TableFile:
    """The files that hold one table.

    Attributes:
        table: The name of the table.
        base: The path of the files without their endings.
        rows: The number of rows.
        longest: The bytes of the longest label.
    """

    table: str
    base: Path
    rows: int
    longest: int

    @property
    def endings(self) -> tuple[str, ...]:
        return table_endings(self.rows)

    @property
    def groups(self) -> RowGroups:
        """The row groups of the Parquet file."""
        return RowGroups(self.base.with_suffix(".parquet"), self.rows, self.longest)

    def read(self) -> Columns:
        """Return the columns of the Parquet file.

        Raises:
            ReleaseError: The file is missing, or is no Parquet file of a release.
        """
        return read_columns(self.base.with_suffix(".parquet"), self.rows, self.longest)[0]

    def same_csv(self, columns: Columns) -> bool:
        """Return True if the CSV file holds exactly these columns.

        Raises:
            ReleaseError: The file is missing, or cannot be read.
        """
        return says(self.base.with_suffix(".csv"), csv_pieces(columns))


def _check_parquet(
    release: Release, names: Sequence[str], files: Sequence[_TableFile], same: set[str]
) -> Message | None:
    """Return the fault of the Parquet files; add to `same` the files whose CSV file is equal.

    A CSV file in `same` is not read again.

    Args:
        release: The release that was read.
        names: The names of the tables with files.
        files: Their files.
        same: A set to which names without endings are added.

    Raises:
        ReleaseError: A file is missing, or is no Parquet file of a release.
    """
    by_name = {file.base.name: file for file in files}
    for name, file_name, rebuilt in release.files(names):
        file, comparison = by_name[file_name], _Comparison(rebuilt)
        groups, csv, end = (
            file.groups,
            file.base.with_suffix(".csv"),
            0 if ".csv" in by_name[file_name].endings else None,
        )
        for columns in groups:
            comparison.add(columns)
            # the CSV file now, while the rows are in memory: to read all tables twice would take twice as long
            if end is not None:
                end = matched(csv, itertools.islice(csv_pieces(columns), 1 if end else 0, None), end)
        with contextlib.suppress(OSError):
            if end is not None and csv.stat().st_size == end:
                same.add(file_name)
        problem = comparison.fault() or (Message("report.fault.metadata") if groups.metadata else None)
        if problem:
            table = Value("table", name, ValueKind.CODE)
            return Message("report.fault.table", (table, Value("problem", problem, ValueKind.MESSAGE)))
        del comparison, rebuilt  # a long table leaves the memory before the next one is rebuilt
    return None


def _describe_histogram(release: Release, i: int) -> Message:
    synthesis, cells = release.biased[i], release.plan.groups[i].decomposition.cells
    gap = Value("gap", 0.0 if synthesis is None else synthesis.gap, ValueKind.GAP)
    return Message("report.finding.histogram", (Value("cells", cells, ValueKind.COUNT), gap))


def _check_histogram(folder: Path, release: Release, i: int) -> Message | None:
    """Return the fault if another histogram is much better. Reading proved that it is one for the database size."""
    synthesis, base = release.biased[i], histograms(release.plan)[i]
    if synthesis is None:
        return Message("report.fault.no_histogram")
    # the gap is taken relative to distance and answers together: a perfect fit has distance 0 and no relative gap
    if synthesis.gap > GAP * (synthesis.distance + GAP * float(synthesis.noisy @ synthesis.noisy)):
        return Message("report.fault.histogram", (Value("gap", synthesis.gap, ValueKind.PEOPLE),))
    if read_columns(folder / f"{base}.parquet", *extent(cell_stubs(release.plan.groups[i])))[1]:
        return Message("report.fault.metadata")
    same = says(folder / f"{base}.csv", csv_pieces(release.synthetic(i)))
    return None if same else Message("report.fault.histogram_csv")


@final
class _Comparison:
    """The comparison of a table that is read, row group by row group, with the rebuilt one.

    Args:
        rebuilt: The rebuilt table.
    """

    def __init__(self, rebuilt: Columns) -> None:
        self._rebuilt, self._rows, self._numbers = rebuilt, 0, number_columns(rebuilt)
        self._faults: dict[str, Message] = {}
        self._differences: dict[str, float] = {}
        self._same_shape = True

    def add(self, read: Mapping[str, NDArray[Any]]) -> None:
        """Compare the next rows."""
        start, self._rows = self._rows, self._rows + len(next(iter(read.values()), ()))
        self._same_shape &= list(read) == list(self._rebuilt)
        if self._same_shape:
            rebuilt = {column: x[start : self._rows] for column, x in self._rebuilt.items()}
            for column in rebuilt:
                self._compare(column, read[column], rebuilt)

    def _compare(self, column: str, a: NDArray[Any], rebuilt: Mapping[str, NDArray[Any]]) -> None:
        b, column_value = rebuilt[column], Value("column", column, ValueKind.CODE)
        if a.dtype.kind != b.dtype.kind:
            self._faults[column] = Message("report.fault.column_type", (column_value,))
        elif column not in self._numbers:
            # bits, because the open ends of bins are NaN, which equals nothing
            is_text = b.dtype.kind == "O"
            if not (a.tolist() == b.tolist() if is_text else a.tobytes() == b.astype(a.dtype).tobytes()):
                self._faults[column] = Message("report.fault.column_labels", (column_value,))
        else:
            differences = np.abs(a - b)
            # the largest of all row groups: np.maximum keeps a number that is no number
            self._differences[column] = float(np.maximum(self._differences.get(column, 0.0), differences.max()))
            # `not … all()`, so that a number that is no number is a fault
            if not (differences <= _allowed(column, rebuilt)).all() or column in self._faults:
                difference = Value("difference", self._differences[column], ValueKind.PEOPLE)
                self._faults[column] = Message("report.fault.column", (column_value, difference))

    def fault(self) -> Message | None:
        """Return the fault of the first column that differs; None if all rows agree."""
        if not self._same_shape or self._rows != len(next(iter(self._rebuilt.values()))):
            return Message("report.fault.shape")
        return next((self._faults[column] for column in self._rebuilt if column in self._faults), None)


def _allowed(column: str, columns: Mapping[str, NDArray[Any]]) -> Floats:
    """Return the differences that are allowed for the numbers of a column."""
    if column == "simulated_rmse":  # iterations can end differently on another machine
        return np.asarray(SIMULATED * columns[column])
    if column == "biased_value":
        return np.asarray(ITERATIVE_TOLERANCE * columns["std_error"])
    return np.asarray(ROUNDING * (np.abs(columns[column]) + _width(columns)))


def _width(columns: Mapping[str, NDArray[Any]]) -> Floats:
    """Return the uncertainty of a table's numbers: standard errors, or for means the widths of intervals."""
    return columns["std_error"] if "std_error" in columns else columns["high"] - columns["low"]


def _table_files(plan: Plan, folder: Path, name: str) -> list[_TableFile]:
    """Return the files of a table of a release in a folder; a table of means has two."""
    workload = plan.group(name).publication.workload
    stubs = file_stubs(workload[name], workload.domain)
    return [_TableFile(name, folder / "tables" / file, *extent(stub)) for file, stub in stubs.items()]


def _check_csv(files: Sequence[_TableFile]) -> Message | None:
    """Return the fault of the CSV files, each compared with the Parquet file of its name.

    Raises:
        ReleaseError: A file is missing, or is no Parquet file of a release.
    """
    wrong = next((file.table for file in files if not file.same_csv(file.read())), None)
    return None if wrong is None else Message("report.fault.csv", (Value("table", wrong, ValueKind.CODE),))
