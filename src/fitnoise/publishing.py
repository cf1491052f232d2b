"""Publishing: rehearse, measure once, write; or count here, and publish elsewhere."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, final

import numpy as np

from fitnoise.errors import DataError, LedgerError, PlanError, ReleaseError
from fitnoise.kernel.arguments import checked
from fitnoise.kernel.counting import Counter, Dropped, open_counter
from fitnoise.kernel.counting.sealed import PUBLIC, is_sealed, key_pair, read_key
from fitnoise.kernel.ledger import Entry, Ledger
from fitnoise.kernel.losses import rounded_up
from fitnoise.kernel.measure import Measurement, measure, sealed
from fitnoise.kernel.periods import Series
from fitnoise.kernel.series import again as draw_again
from fitnoise.kernel.series import draw, kept, touched
from fitnoise.mechanisms.gaussian.series import joined
from fitnoise.planning.plan import Plan, read_back
from fitnoise.reading import verification
from fitnoise.reading.files import clear_leftovers, replace_file, staged
from fitnoise.reading.release import Release, to_write
from fitnoise.request.workloads import some

P = ParamSpec("P")
R = TypeVar("R")


def _with_ledger_file(function: Callable[P, R]) -> Callable[P, R]:
    """Let a function take the file of a ledger in place of an open one. Readers below cannot open ledgers."""

    @functools.wraps(function)
    def opening(*args: P.args, **kwargs: P.kwargs) -> R:
        file: Any = kwargs.get("ledger")
        if not isinstance(file, str | os.PathLike):
            return function(*args, **kwargs)
        if not Path(file).is_file():  # a ledger that is made here would know nothing
            raise LedgerError(f"there is no ledger {Path(file).name!r}. Nothing was verified.")
        with Ledger(file) as book:
            kwargs["ledger"] = book
            return function(*args, **kwargs)

    return opening


verify = _with_ledger_file(verification.verify)

UNSEEDED = dict.fromkeys(
    ("seed", "random_seed", "random_state", "rng"),
    "Noise has no seed, because anyone who knew the seed could subtract the noise. To test code reproducibly, make a "
    "release of answers of your own, without data and without a charge: fitnoise.Release(plan, answers).",
)
"""The reason why functions that draw noise take no seed, by the names that other libraries give it."""


@checked(ReleaseError, "Nothing was measured, nothing was charged.", absent=UNSEEDED)
def release(
    plan: Plan,
    data: Any,
    *,
    ledger: str | os.PathLike[str] | Ledger,
    directory: str | os.PathLike[str] | None = None,
    tables: str | Iterable[str] | None = None,
    table: str | None = None,
    private_key: str | os.PathLike[str] | None = None,
    period: str | int | None = None,
    series: str | os.PathLike[str] | None = None,
    progress: Callable[[str], None] | None = None,
    notice: Callable[[str], None] | None = None,
    dropped: Callable[[Dropped], None] | None = None,
) -> Release:
    """Measure a plan on data, once, and release its tables; of a series those of the next period.

    Args:
        plan: from :func:`fitnoise.plan`.
        data: a CSV or Parquet file, a pattern, a folder of such files (in which folders called column=value hold a
            column), or a list of these; a DuckDB, SQLite, SPSS, SAS, Stata or Excel file; a database ("env:NAME", a
            variable of the environment that holds its URL, a URL without a password, or an Engine of SQLAlchemy), which
            counts where it is; "spark:TABLE", a session of Spark or its DataFrame; an Arrow, Polars or pandas frame;
            an array of counts; or a file of counts that were made where the data are (:func:`count`).
        ledger: the ledger, or its file (made when it does not exist); charged before any noise is drawn.
        directory: where to write the release; it must not exist, or be empty. None writes nothing.
        tables: names of the tables to write there as files; None writes all. The others can be rebuilt at any time.
        table: of a database or a DuckDB file; overrides the plan's.
        private_key: file with the key that opens sealed counts.
        period: of a series, which period: as tables label it. Of the data only its records count.
        series: of a series, the folder where its counts are kept, as confidential as the data; made at the first
            period, for its owner alone.
        progress: told the name of each stage.
        notice: told, a sentence each, of folders that killed releases to this directory left beside it. They are
            removed, but for those in use and those with a whole release. Once the release is in place, it also gets
            the number of records left out as outside the domain, where the plan drops such records.
        dropped: receives this number, by attribute. It is exact, and for the operator alone: no file holds it.

    Raises:
        DataError: the data do not fit the domain; nothing measured, nothing charged.
        BudgetExceeded: the charge does not fit; nothing measured, nothing charged.
        LedgerError: the ledger cannot be used; of a series, it is not the turn of the period, or answers of an earlier
            one are lost; nothing measured.
        PlanError: the plan is a series, and no period or folder is given; or it is none, and one is. Or the plan in
            memory is another than its document says.
        ReleaseError: the directory cannot be written. When this happens after measuring, the charge stays: the answers
            of a period are kept, and :func:`period` writes them.
    """
    plan = read_back(plan)
    drawn = _turn(plan, period, series)
    if not ledger.lasting if isinstance(ledger, Ledger) else str(ledger) == ":memory:":
        raise LedgerError(
            "a release must be remembered: ':memory:' is a ledger that forgets. Give a file. Nothing was measured."
        )
    if directory is None and tables is not None:
        raise ReleaseError("tables to write need a directory to write them to; none was given. Nothing was measured.")
    tell = progress or (lambda _: None)
    fate = "Nothing was measured and nothing was charged."
    try:
        with contextlib.ExitStack() as stack:
            stage = None if directory is None else stack.enter_context(staged(Path(directory)))
            for found in () if directory is None else clear_leftovers(Path(directory)):
                (notice or (lambda _: None))(found)
            tell("opening the data")
            counter = _opened(plan, data, table, private_key)
            tell("rehearsing without data")
            shown = plan if drawn is None else plan.through(drawn.period)
            written = () if stage is None else to_write(shown, tables)
            _rehearse(shown, stage, written)
            book = ledger if isinstance(ledger, Ledger) else stack.enter_context(Ledger(ledger))
            before = [] if drawn is None else _before(drawn, book)
            tell("counting, charging and measuring")
            if drawn is None:
                measured = measure(plan.order, counter, book, progress=lambda x: tell(f"counting, {x:.0%}"))
            else:
                measured = drawn.draw(counter, book, lambda x: tell(f"counting, {x:.0%}"))
            fate = "The data were measured before: the charge stays in the ledger."
            if drawn is None:
                result = _released(plan, measured)
            else:
                fate = f"{fate} The answers are kept: `fitnoise series write` writes them."
                result = _known(shown, [*before, measured])
            if stage is not None:
                tell("writing the tables")
                result._fill(stage, written)
    except ReleaseError as error:
        raise ReleaseError(f"{error} {fate}") from error
    _tell_dropped(counter, notice, dropped)
    return result


def _tell_dropped(
    counter: Counter, notice: Callable[[str], None] | None, dropped: Callable[[Dropped], None] | None
) -> None:
    """Give the operator the number of records that were dropped; last of all, because a callback may fail."""
    if (found := counter.dropped) is not None:
        (notice or (lambda _: None))(str(found))
        (dropped or (lambda _: None))(found)


@final
@dataclass(frozen=True)
class PeriodStatus:
    """What became of a period of a series.

    Attributes:
        period: as tables label it.
        sequence: of the ledger's entry that says it was drawn; None of one that was not.
        time: when, in UTC.
        kept: whether its answers are kept. Of a period that was drawn and has none, they are lost: it is drawn again
            (:func:`period`), at a price, before the next.
        price: what drawing it again would cost, ρ, rounded up.
        frozen: whether its counts are there as they were frozen; where they are not, no later period is drawn.
    """

    period: str | int
    sequence: int | None
    time: str | None
    kept: bool
    price: float
    frozen: bool = True


@checked(ReleaseError, "Nothing was read.")
def periods(
    plan: Plan, *, ledger: str | os.PathLike[str] | Ledger, series: str | os.PathLike[str]
) -> tuple[PeriodStatus, ...]:
    """What became of each period of a series. Reads no data, and changes nothing.

    Args:
        plan: of the series.
        ledger: the ledger, or its file.
        series: the folder where its counts are kept.

    Raises:
        PlanError: the plan is none of a series.
        LedgerError: there is no such ledger, or it cannot be used.
        DataError: there is no such folder, though periods were drawn; or the answers kept in it were touched.
    """
    if plan.series is None:
        raise _no_series()
    with contextlib.ExitStack() as stack:
        book = _there(ledger, stack)
        found = _kept(plan.series, book, Path(series))
        others = {entry.digest for entry in touched(plan.series, book, Path(series))}
    out = []
    for i, (label, design) in enumerate(zip(plan.periods, plan.series.designs, strict=True)):
        one = found[i] if i < len(found) else None
        entry = one.charge if isinstance(one, Measurement) else one
        price = rounded_up(design.loss(plan.order.adjacency).rho)
        number, time = (None, None) if entry is None else (entry.sequence, entry.time)
        frozen = entry is None or entry.digest not in others
        out.append(PeriodStatus(label, number, time, isinstance(one, Measurement), price, frozen))
    return tuple(out)


@checked(ReleaseError, "Nothing was written.", absent=UNSEEDED)
def period(
    plan: Plan,
    period: str | int,
    *,
    ledger: str | os.PathLike[str] | Ledger,
    series: str | os.PathLike[str],
    directory: str | os.PathLike[str] | None = None,
    tables: str | Iterable[str] | None = None,
    again: bool = False,
    notice: Callable[[str], None] | None = None,
) -> Release:
    """A period of a series that was drawn before, as it was: from the answers that are kept, without data.

    Args:
        plan: of the series.
        period: as tables label it.
        ledger: the ledger, or its file.
        series: the folder where its counts and answers are kept.
        directory: where to write the release; it must not exist, or be empty. None writes nothing.
        tables: names of the tables to write there as files; None writes all.
        again: where its answers are lost, draw its rows once more, from the counts that were frozen then, and charge
            what these cost on their own.
        notice: Receives a sentence for each folder that killed processes left of this directory (:func:`release`).

    Raises:
        PlanError: the plan is none of a series, or has no such period.
        LedgerError: it was not drawn yet; its answers are lost, and `again` is not said; or they are not, and it is.
        BudgetExceeded: the charge does not fit; nothing was drawn.
        DataError: what is kept in the folder was touched.
        ReleaseError: the directory cannot be written.
    """
    plan = read_back(plan)
    turn = _turn(plan, period, series)
    if turn is None:
        raise _no_series()
    with contextlib.ExitStack() as stack:
        stage = None if directory is None else stack.enter_context(staged(Path(directory)))
        for left in () if directory is None else clear_leftovers(Path(directory)):
            (notice or (lambda _: None))(left)
        book = _there(ledger, stack)
        shown = plan.through(turn.period)
        written = () if stage is None else to_write(shown, tables)
        if again:
            draw_again(turn.series, turn.period, book, turn.folder)
        found = _before(_Turn(turn.series, turn.period + 1, turn.folder, turn.labels), book)
        if len(found) < turn.period:
            raise LedgerError(
                f"period {period} was not drawn yet: release it (fitnoise release --period). Nothing was written."
            )
        result = _known(shown, found)
        if stage is not None:
            result._fill(stage, written)
    return result


@final
@dataclass(frozen=True)
class _Turn:
    """A period of a series whose turn it is. labels: of all periods."""

    series: Series
    period: int
    folder: Path
    labels: tuple[str | int, ...]

    def draw(self, counter: Counter, book: Ledger, progress: Callable[[float], None]) -> Measurement:
        """Count, charge and measure it."""
        return draw(self.series, self.period, counter, book, self.folder, progress=progress)


def _no_series() -> PlanError:
    return PlanError(
        "the plan is released all at once: it is no series ([series] in its specification), and has no periods. "
        "Nothing was measured."
    )


def _turn(plan: Plan, period: str | int | None, series: str | os.PathLike[str] | None) -> _Turn | None:
    """Which period is meant, and where its series is kept; None of a plan that is none.

    Raises:
        PlanError: a plan is released in another way than it is made for, or has no such period.
    """
    if plan.series is None:
        if period is not None or series is not None:
            raise _no_series()
        return None
    labels = list(map(str, plan.periods))
    if period is not None and str(period) not in labels:
        raise PlanError(f"{str(period)!r} is no period of the series; there are {some(labels)}. Nothing was measured.")
    if period is None or series is None:
        raise PlanError(
            "the plan is a series, released period by period: say which period, and in which folder its counts are "
            f"kept (--period, --series). Its periods are {some(labels)}. Nothing was measured."
        )
    return _Turn(plan.series, 1 + labels.index(str(period)), Path(series), plan.periods)


def _there(ledger: str | os.PathLike[str] | Ledger, stack: contextlib.ExitStack) -> Ledger:
    """A ledger that is there."""
    if isinstance(ledger, Ledger):
        return ledger
    if not Path(ledger).exists():
        raise LedgerError(f"there is no ledger {Path(ledger).name!r}. Nothing was drawn.")
    return stack.enter_context(Ledger(ledger))


def _kept(series: Series, book: Ledger, folder: Path) -> list[Measurement | Entry]:
    """What was drawn of a series; a folder that is not there, or that others own, is no loss.

    Raises:
        DataError: periods were drawn, and there is no such folder; or it cannot be read.
    """
    if folder.is_dir() and not os.access(folder, os.R_OK | os.X_OK):
        raise DataError(
            f"the folder {folder.name!r} of the series cannot be read by whoever runs this: it is for its owner alone. "
            "Nothing was drawn."
        )
    found = kept(series, book, folder)
    if found and not folder.is_dir():
        raise DataError(
            f"there is no folder {folder.name!r}, and the ledger says that periods of this series were drawn: name the "
            "folder in which they are kept, or bring it back. Nothing was drawn."
        )
    return found


def _before(turn: _Turn, book: Ledger) -> list[Measurement]:
    """What was drawn before a period.

    Raises:
        LedgerError: the answers of one of these are lost.
    """
    found = _kept(turn.series, book, turn.folder)[: turn.period - 1]
    for label, one in zip(turn.labels, found, strict=False):
        if not isinstance(one, Measurement):
            raise LedgerError(
                f"period {label} was drawn (entry {one.sequence}), and its answers are not in {turn.folder.name!r}. Is "
                "it the folder of this series? Then they are lost: a process was killed before they were kept, or the "
                "file was removed. Later periods need them: draw it again (fitnoise series write --again), which is "
                "charged. Nothing was drawn."
            )
    return [x for x in found if isinstance(x, Measurement)]


def _released(plan: Plan, measured: Measurement) -> Release:
    """The release of a plan that was measured at once."""
    count = len(plan.groups)
    answers = [y for part in measured.answers[:count] for y in part]
    return Release(plan, answers, measured.charge, [int(x.item()) for (x,) in measured.answers[count:]])


def _known(shown: Plan, found: Sequence[Measurement]) -> Release:
    """The release of a series as far as it was drawn."""
    return Release(shown, joined(shown.only, [m.answers[0] for m in found]), found[-1].charge)


@checked(ReleaseError, "Nothing was counted.")
def count(
    plan: Plan,
    data: Any,
    file: str | os.PathLike[str],
    *,
    public_key: str | os.PathLike[str] | None = None,
    plain: bool = False,
    table: str | None = None,
    progress: Callable[[str], None] | None = None,
    notice: Callable[[str], None] | None = None,
    dropped: Callable[[Dropped], None] | None = None,
) -> Path:
    """Count for a plan where the data are, to release it elsewhere: ``release(plan, file, private_key=…)``.

    The file holds the exact counts that the plan needs, and is as confidential as the data. Nothing is charged: each
    release made of it is.

    Args:
        plan: from :func:`fitnoise.plan`.
        data: as of :func:`release`.
        file: where to write the counts; it must not exist. Its length follows from the plan, not from the data.
        public_key: file with the key for which they are sealed (:func:`new_keys`): who has the private one reads them.
        plain: do not seal them; only the owner of the file may read it.
        table: of a database or a DuckDB file; overrides the plan's.
        progress: told the name of each stage.
        notice: receives a sentence with the number of records left out as outside the domain, as in :func:`release`.
            The file does not hold this number.
        dropped: receives this number, by attribute.

    Raises:
        DataError: the data do not fit the domain, or there is no such key; nothing written.
        CapExceeded, PlanError: the plan cannot be released; nothing read.
        ReleaseError: neither a key is given nor `plain`, or both; or the file exists, or cannot be written.
    """
    plan = read_back(plan)
    path, tell = Path(file), progress or (lambda _: None)
    if (public_key is None) is not plain:
        raise ReleaseError(
            "counts are sealed for a public key or left plain, one of the two: give the key (--for), or say --plain. "
            "Nothing was counted."
        )
    _refuse_place(path)
    if public_key is not None:
        read_key(public_key, PUBLIC)
    tell("opening the data")
    counter = _opened(plan, data, table, None)
    tell("counting")
    content = sealed(plan.order, counter, public_key, progress=lambda x: tell(f"counting, {x:.0%}"))
    replace_file(path, content, 0o600)
    _tell_dropped(counter, notice, dropped)
    return path


@checked(ReleaseError, "No file was written.")
def new_keys(file: str | os.PathLike[str]) -> tuple[Path, Path]:
    """Make a pair of keys: counts are sealed for the public one, and opened by the private one.

    Args:
        file: where to write the private key, which only its owner may read. The public one lies beside it, with the
            ending ".pub". Neither must exist.

    Returns:
        Both files.

    Raises:
        ReleaseError: a file exists, or cannot be written.
        DataError: what makes keys is not installed (fitnoise[sealed]).
    """
    own = Path(file)
    if not own.name:
        raise ReleaseError(f"{str(file)!r} names no file; choose a name. Nothing was written.")
    other = own.with_name(f"{own.name}.pub")
    for path in (own, other):
        _refuse_place(path)
    private, public = key_pair()
    replace_file(own, f"{private}\n".encode(), 0o600)
    replace_file(other, f"{public}\n".encode())
    return own, other


def _refuse_place(path: Path) -> None:
    """Raise ReleaseError where there is a file already, or none can be written."""
    if path.exists():
        raise ReleaseError(f"{path.name!r} exists; choose another name. Nothing was written.")
    if not (path.parent.is_dir() and os.access(path.parent, os.W_OK)):
        raise ReleaseError(f"{path.name!r} cannot be written: there is no folder {path.parent.name!r} to write to.")


def _opened(plan: Plan, data: Any, table: str | None, key: str | os.PathLike[str] | None) -> Counter:
    """The data, of that table."""
    asked = plan.publication
    if table is not None and is_sealed(data):
        raise DataError(
            "counts made elsewhere are of the table that was counted there: leave --table out here. Nothing was "
            "measured and nothing was charged."
        )
    source = asked.source if table is None else replace(asked.source, table=table)
    return open_counter(data, asked.domain, source, asked.unit.bound, key=key)


def _rehearse(plan: Plan, stage: Path | None, written: Sequence[str]) -> None:
    """Rebuild and write the release of answers that are all zero: whatever fails here has cost nothing."""
    lengths = [n for part in plan.groups for n in part.strategy.lengths]
    blank = Release(plan, [np.zeros(n, dtype=np.int64) for n in lengths], outputs=[0] * len(plan.finite))
    _ = blank.finite
    for part, biased in zip(plan.groups, blank.biased, strict=True):
        _ = part.variances
        if biased is not None:
            _ = biased.simulated  # of the plan alone: what it takes is taken before the charge
        for group in part.decomposition.tables:
            _ = blank[part.publication.workload.tables[int(group.tables[0])].name]
    if stage is not None:
        blank._fill(stage, written, rehearsal=True)
