"""Draw a series period by period, each period once, and charge all of it at the first. Part of the trust kernel.

**Purpose.** Rows of a period need counts of earlier periods too. These counts were *frozen* when they were drawn. A
later correction changes no count: a record must stay in its cell for the sums of :mod:`fitnoise.kernel.periods` to
hold. Frozen counts are exact, and as confidential as the records. The ledger names each file by its SHA-256, which
reveals nothing, because the file also holds 256 random bits. Noise is never stored by itself, nor is a seed. The
answers that are stored are the published ones.

    folder, for its owner alone
        0001-DIGEST.frozen    FROZEN, 32 random bytes, 32 bytes that identify the counts (`measure`), the period in 8
                              bytes, then int64, little end first: every margin, in order, of this period, in C order.
                              DIGEST is that of the file
        0001-DIGEST.drawn     the noisy answers, as `fitnoise.kernel.answer_files` writes them. DIGEST is that of the
                              ledger's entry; a second entry names the answers

**Interruption.** A process killed at any moment leaves a period in one of three states: not drawn; drawn and stored; or
in the ledger without answers. In the third state `redraw` draws it, from the frozen counts, at no price, for the reason
that :mod:`fitnoise.kernel.answer_files` gives. Where answers that the ledger names are lost, `redraw` has a price.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import re
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from secrets import token_bytes, token_hex
from typing import Any, Final, final

import numpy as np
from numpy.typing import NDArray

from fitnoise.errors import DataError, LedgerError
from fitnoise.kernel import noise
from fitnoise.kernel.answer_files import Room, read, room_for
from fitnoise.kernel.counting import Counter, Margin, Margins, Progress, maximal
from fitnoise.kernel.designs._base import Answers, NoiseSource
from fitnoise.kernel.designs.witness import Claim
from fitnoise.kernel.disk import Draft, sync_names
from fitnoise.kernel.ledger import DrawnPeriod, Ledger, LedgerEntry
from fitnoise.kernel.measure import (
    Measurement,
    Stages,
    _answer_bounds,
    _count_margins,
    _counter_margins,
    _counts_fingerprint,
    _exact_answers,
    _needed_margins,
    _refuse,
    _RequiredAxes,
)
from fitnoise.kernel.order import Order
from fitnoise.kernel.periods import Series

FROZEN: Final = b"fitnoise series 1, frozen counts\n"
"""The first bytes of a file of frozen counts."""

_RANDOM = 32


# In ASCII: Python's \d would also take the digits of other scripts.
_NAME = re.compile(r"(\d{4,})-([0-9a-f]{64})\.(frozen|drawn)|(\d{4,})[fd]-[0-9a-f]{16}\.unfinished", re.ASCII)


def draw(
    series: Series,
    period: int,
    counter: Counter,
    ledger: Ledger,
    folder: Path,
    *,
    share: str | None = None,
    note: Mapping[str, str] | None = None,
    stages: Stages | None = None,
    progress: Progress | None = None,
    noise: NoiseSource = noise,
) -> Measurement:
    """Draw the next period of a series: of the data, only the records of this period count.

    Args:
        series: The series.
        period: The number of the period, from 1: the one after the last drawn period.
        counter: The data; records of other periods in them are not counted.
        ledger: The ledger. It charges the entire series before the first period is drawn, and records each other
            period.
        folder: The folder of the counts, made at the first period for its owner alone; it holds one series only.
        share: The name of the share that the first period charges; `None` where the source has no shares.
        note: Statements of the publisher that the entry of the charge keeps. They replace no key of the order.
        stages: The object that records the stages passed.
        progress: A function that receives the counted fraction, from 0 to 1.
        noise: The noise source.

    Returns:
        The answers of the period's own design, and the entry of the ledger.

    Raises:
        DataError: See :func:`fitnoise.kernel.measure.measure`.
        DataError: The folder does not exist, is open to others, of another series, or newer than the ledger. Or frozen
            counts are missing or altered, or cannot be written. Nothing was drawn, and nothing was charged.
        CapExceeded, PlanError, BudgetExceeded: See :func:`fitnoise.kernel.measure.measure`.
        LedgerError: It is not the turn of the period, another process draws it, or the ledger cannot be used. Or the
            answers cannot be stored: then the period is drawn, and :func:`redraw` gives its answers.

    **Guarantees**
        * Of a period one draw is returned, for any number of processes that try, and each only after its entry is on
          the disk.
        * The counts of a period are on the disk before its entry, and no later call changes them.
        * The draw depends on records of other periods only through the counts frozen for them.
    """
    series, stages = series.without_cache(), stages or Stages()
    order = series.order
    _refuse(order, counter)
    entries = ledger.series(order.account, order.plan)
    _refuse_turn(series, period, len(entries))
    _refuse_folder(folder, order, ledger, is_first=period == 1)
    required = _required_axes(series)
    margins = _counter_margins(required)
    frozen = [_thawed(series, folder, entry, margins) for entry in entries]
    request = order.account, order.ledger_loss(), dict(note or {}) | _detail(order, token_hex(16), share)
    if period == 1:
        # Checked before counting, so that data are not read for a charge that cannot fit.
        ledger.admit(*request, also=order.losses_of_units(ledger.accounts()))
    counts, _ = _count_margins(order, required, counter, progress, series.periods)
    # Counts of other periods in the data are dropped here: those of earlier periods are frozen.
    period_counts = {m: np.take(counts[m], period - 1, m.index(series.attribute)) for m in margins}
    with Room(folder, f"{period:04}d") as room:
        exact, length = _room(series, required, [*frozen, [period_counts[m] for m in margins]], room)
        # On the disk before the entry that names them: an entry without counts would end the series.
        digest = _freeze(series, folder, period, [period_counts[m] for m in margins])
        drawn_period = DrawnPeriod(period, digest)
        stages.salt = digest
        if period == 1:
            entry = ledger.charge(*request, also=order.losses_of_units(ledger.accounts()), drawn_period=drawn_period)
        else:
            # The charge at period 1 covers all periods; this entry costs nothing.
            entry = ledger.period(order.account, order.plan, drawn_period)
        stages.charge = entry
        measurement = _noisy(
            series, exact, length, room, _ChargedPeriod(ledger, folder, entry), stages=stages, noise=noise
        )
    _clear(folder, [*entries, entry])
    return measurement


def redraw(
    series: Series,
    period: int,
    ledger: Ledger,
    folder: Path,
    *,
    claim: Claim | None = None,
    share: str | None = None,
    stages: Stages | None = None,
    noise: NoiseSource = noise,
) -> Measurement:
    """Draw the rows of a period again, from its frozen counts, where the earlier answers are lost.

    A period for whose entry the ledger names no answers costs nothing. Any other costs its rows on their own.

    Args:
        series: The series.
        period: The number of a drawn period, from 1.
        ledger: The ledger that charges the cost of the rows of this period on their own.
        folder: The folder of the counts.
        claim: The claimed price of these rows for the records of one unit, which is proven before it is charged.
        share: The name of the share to charge; `None` for the one that was charged for the series.
        stages: The object that records the stages passed.
        noise: The noise source.

    Returns:
        The answers of the period's own design, and the entry that charges this draw.

    Raises:
        PlanError: The claim is not proven; nothing was drawn.
        LedgerError: The period was not drawn before, its answers exist, another process draws it, the ledger cannot be
            used, or the answers cannot be stored.
        DataError, BudgetExceeded: See :func:`draw`.
    """
    series, stages = series.without_cache(), stages or Stages()
    entries = ledger.series(series.order.account, series.order.plan)
    # Without answers in the ledger none were published, so a draw for the first charge is the only one.
    waits = 1 <= period <= len(entries) and ledger.answered(entries[period - 1]) is None
    if not waits and (not 1 <= period <= len(entries) or _path(folder, entries[period - 1], "drawn").exists()):
        raise LedgerError(
            "period-not-lost",
            f"Period {series.label(period)} of the series was not drawn yet, or its answers are kept.",
            "Answers that are kept never change.",
            "Draw the next period, or publish the answers that are kept.",
            "Nothing was drawn and nothing was charged.",
        )
    order = series.redraw_order(period, claim).without_cache()  # The walk refuses a claim of a foreign class.
    _refuse_folder(folder, order, ledger, is_first=False)
    required = _required_axes(series)
    frozen = [_thawed(series, folder, entry, _counter_margins(required)) for entry in entries[:period]]
    salt, entry = token_hex(16), entries[period - 1]
    with Room(folder, f"{period:04}d") as room:
        exact, length = _room(series, required, frozen, room)
        if not waits:
            stages.salt, also = salt, order.losses_of_units(ledger.accounts())
            detail = _detail(order, salt, share or series_charges(series, ledger)[0].detail.get("share"))
            entry = ledger.charge(
                order.account, order.ledger_loss(), detail, also=also, drawn_period=entry.drawn_period
            )
        stages.charge = entry
        return _noisy(series, exact, length, room, _ChargedPeriod(ledger, folder, entry), stages=stages, noise=noise)


def series_charges(series: Series, ledger: Ledger) -> list[LedgerEntry]:
    """Return the charge of a series, and then the charges of its periods that were drawn again, oldest first.

    Args:
        series: The series.
        ledger: The ledger that charged it.
    """
    order = series.order
    return [e for e in ledger.entries(order.account) if e.kind == "charge" and e.detail.get("plan") == order.plan]


def read_answers(series: Series, ledger: Ledger, folder: Path) -> list[Measurement | LedgerEntry]:
    """Return the drawn answers of a series, period by period; for a period without them, the entry that charged it.

    Args:
        series: The series.
        ledger: The ledger that recorded the draws.
        folder: The folder of the answers.

    Raises:
        LedgerError: A stored file was altered.
    """
    entries = ledger.series(series.order.account, series.order.plan)
    results: list[Measurement | LedgerEntry] = []
    for entry in entries:
        answered = ledger.answered(entry)
        answers = None if answered is None else read(_path(folder, entry, "drawn"), str(answered.answers))
        results.append(entry if answers is None else Measurement(answers, entry))
    return results


def touched(series: Series, ledger: Ledger, folder: Path) -> list[LedgerEntry]:
    """Return the entries of periods whose frozen counts are lost or altered: no later period can be drawn.

    Args:
        series: The series.
        ledger: The ledger that recorded the draws.
        folder: The folder of the counts.
    """
    margins, altered = _counter_margins(_required_axes(series)), []
    for entry in ledger.series(series.order.account, series.order.plan):
        try:
            _thawed(series, folder, entry, margins)
        except DataError:
            altered.append(entry)
    return altered


def _required_axes(series: Series) -> _RequiredAxes:
    """Return the margins of all periods, each with the attributes and levels by which it is counted.

    Every margin has the attribute of the periods, and the margins are the same for all periods.
    """
    domain = series.order.domain
    position_of = {a: i for i, a in enumerate(domain.sizes)}
    needed = _needed_margins(series.order, (series.strategy, *series.designs))
    with_period = {tuple(sorted({*m, series.attribute}, key=position_of.__getitem__)) for m in needed}
    return {m: domain.counting_axes(m) for m in maximal(with_period)}


def _detail(order: Order, salt: str, share: str | None) -> dict[str, Any]:
    """Return the detail of the charge of a series, or of a second draw."""
    return order.detail() | {"salt": salt} | ({} if share is None else {"share": share})


def _refuse_turn(series: Series, period: int, drawn_periods: int) -> None:
    """Raise LedgerError unless `period` is the one after the drawn periods, and in the series."""
    if 1 <= period <= drawn_periods:
        raise LedgerError(
            "period-drawn-before",
            f"Period {series.label(period)} of the series was drawn before.",
            "Its values never change, and a late record counts in the period in which it arrives.",
            "Publish the answers that are kept, or draw the next period.",
            "Nothing was drawn and nothing was charged.",
        )
    if period != drawn_periods + 1 or period > series.periods:
        last = f"{series.label(drawn_periods + 1)} is next" if drawn_periods < series.periods else "all were drawn"
        begun = "" if drawn_periods else ", and no series of this very plan was begun in this ledger"
        raise LedgerError(
            "period-not-next",
            f"Period {series.label(period)} of the series is not next: {last}{begun}.",
            "The periods of a series are drawn in order.",
            "Draw the next period, if there is one.",
            "Nothing was drawn and nothing was charged.",
        )


def _refuse_folder(folder: Path, order: Order, ledger: Ledger, *, is_first: bool) -> None:
    """Make the folder at the first period; raise DataError unless it is its owner's alone, and of this series."""
    with contextlib.suppress(OSError):
        if is_first:
            folder.mkdir(mode=0o700)
            # The folder's own name must be on the disk, or a crash could lose the counts with the folder.
            sync_names(folder.parent)
    if not folder.is_dir():
        raise DataError(
            "series-folder-missing",
            f"The folder {folder.name!r} for the counts of this series does not exist.",
            "",
            "Bring the folder back, or correct its path.",
            "Nothing was drawn and nothing was charged.",
        )
    # Windows does not keep its permissions in these bits.
    if sys.platform != "win32" and folder.stat().st_mode & 0o077:
        raise DataError(
            "series-folder-open",
            f"Other users can read the folder {folder.name!r}.",
            "Frozen counts are as confidential as the data.",
            "Run chmod 700 on the folder, and consider who may have read it.",
            "Nothing was drawn and nothing was charged.",
        )
    entries = [e for e in ledger.entries() if e.drawn_period is not None]
    digests = {e.digest for e in entries if (e.account, e.detail["plan"]) == (order.account, order.plan)}
    others = {e.drawn_period.frozen for e in entries if e.drawn_period is not None and e.digest not in digests}
    # Counts that no entry names are those of a killed process, and stay until `_clear`. Answers always have an entry.
    for path in sorted(folder.iterdir()):
        name = _NAME.fullmatch(path.name)
        if name is None or name[2] in others or (name[3] == "drawn" and name[2] not in digests):
            raise DataError(
                "series-folder-foreign-file",
                f"The folder {folder.name!r} holds {path.name[:80]!r}, which the ledger does not know for this series.",
                "The file belongs to another plan, or the ledger is an old copy.",
                "Give each series its own folder, and bring the current ledger back.",
                "Nothing was drawn and nothing was charged.",
            )


def _path(folder: Path, entry: LedgerEntry, what: str) -> Path:
    """Return the path of a file of a period: "frozen" for its counts, "drawn" for its answers."""
    drawn_period = entry.drawn_period
    assert drawn_period is not None  # noqa: S101 - of an entry of a series
    return folder / f"{drawn_period.period:04}-{drawn_period.frozen if what == 'frozen' else entry.digest}.{what}"


def _head(series: Series, period: int) -> bytes:
    """Return the 40 bytes between the random bytes and the counts: what was counted, and the number of the period."""
    return bytes.fromhex(_counts_fingerprint(series.order)) + period.to_bytes(8, "little")


def _freeze(series: Series, folder: Path, period: int, counts: Sequence[NDArray[Any]]) -> str:
    """Keep the counts of a period in a file, and return the SHA-256 of the file, in hexadecimal digits.

    Raises:
        DataError: The file cannot be written.
    """
    body = b"".join(x.astype("<i8").tobytes() for x in counts)
    # The ledger shows the digest. With 256 random bits in the file, no one can find counts by guessing.
    content = FROZEN + token_bytes(_RANDOM) + _head(series, period) + body
    digest = hashlib.sha256(content).hexdigest()
    try:
        with Draft(folder, f"{period:04}f") as draft:
            draft.write(content)
            draft.move_to(folder / f"{period:04}-{digest}.frozen")
    except OSError as error:
        raise DataError(
            "frozen-counts-not-kept",
            f"The counts of period {period} cannot be kept in {folder.name!r} ({error.strerror}).",
            "Later periods need these counts.",
            "Make room in the folder, or allow writing there, then draw the period again.",
            "Nothing was drawn and nothing was charged.",
        ) from None
    return digest


def _thawed(series: Series, folder: Path, entry: LedgerEntry, margins: Sequence[Margin]) -> list[NDArray[np.int64]]:
    """Return the frozen counts of a period: one array for each margin, without the axis of the periods.

    Raises:
        DataError: The counts are lost or altered, or were frozen for other counts or by another version.
    """
    drawn_period, path = entry.drawn_period, _path(folder, entry, "frozen")
    assert drawn_period is not None  # noqa: S101 - of an entry of a series
    content = _read(path)
    if content is None or hashlib.sha256(content).hexdigest() != drawn_period.frozen:
        raise DataError(
            "frozen-counts-altered",
            f"The frozen counts of {series.label(drawn_period.period)} in {folder.name!r} are missing or altered.",
            "No later period can be drawn without them.",
            f"Restore the file {path.name[:20]!r}… as it was.",
            "Nothing was drawn and nothing was charged.",
        )
    start = len(FROZEN) + _RANDOM
    head = _head(series, drawn_period.period)
    sizes = series.order.domain.sizes
    shapes = [tuple(sizes[a] for a in m if a != series.attribute) for m in margins]
    ends = np.cumsum([math.prod(shape) for shape in shapes])
    if content[start : start + len(head)] != head or len(content) != start + len(head) + 8 * ends[-1]:
        raise DataError(
            "frozen-counts-other-version",
            f"The frozen counts of {series.label(drawn_period.period)} were made by a version of fitnoise that counts "
            "differently.",
            "",
            "Use the version of fitnoise that froze them.",
            "Nothing was drawn and nothing was charged.",
        )
    counts = np.frombuffer(content, dtype="<i8", offset=start + len(head)).astype(np.int64)
    return [x.reshape(shape) for x, shape in zip(np.split(counts, ends[:-1]), shapes, strict=True)]


def _room(
    series: Series, required: _RequiredAxes, counts: Sequence[Sequence[NDArray[np.int64]]], room: Room
) -> tuple[Answers, int]:
    """Return the exact answers of the last period with counts, and the length in bytes of the room made for them.

    Args:
        series: The series.
        required: The margins of all periods.
        counts: For every period up to the one to be drawn, the counts of each margin.
        room: The file that keeps the answers.
    """
    order, margins = series.order, _counter_margins(required)
    design = series.designs[len(counts) - 1]
    # Rows of this period touch no later one, so zeros stand for later counts.
    none = [np.zeros_like(x) for x in counts[0]]
    periods = [*counts, *([none] * (series.periods - len(counts)))]
    axis_of = {m: m.index(series.attribute) for m in margins}
    stacked: Margins = {m: np.stack([x[i] for x in periods], axis_of[m]) for i, m in enumerate(margins)}
    single = replace(order, designs=(design,))
    (exact,) = _exact_answers(single, required, stacked, None, series.periods)
    length = room_for([exact], _answer_bounds(single, series.periods))
    room.make(length)
    return exact, length


@final
@dataclass(frozen=True)
class _ChargedPeriod:
    """The ledger and the folder of a series, and the entry that charged one of its periods."""

    ledger: Ledger
    folder: Path
    charge: LedgerEntry


def _noisy(
    series: Series, exact: Answers, length: int, room: Room, path: _ChargedPeriod, *, stages: Stages, noise: NoiseSource
) -> Measurement:
    """Draw the rows of the period that an entry charged, keep the answers, and return them with the entry.

    Args:
        series: The series.
        exact: The exact answers of the period.
        length: The length in bytes of the room.
        room: The room for the answers.
        path: The ledger, the folder and the entry.
        stages: The object that records the stages passed.
        noise: The noise source.

    Raises:
        LedgerError: The answers cannot be stored, or another process recorded its answers first.
    """
    entry = path.charge
    assert entry.drawn_period is not None  # noqa: S101 - of an entry of a series
    answers = series.designs[entry.drawn_period.period - 1].draw(exact, noise)
    stages.answers = room.keep([answers], length, _path(path.folder, entry, "drawn"), path.ledger, entry)
    return Measurement((answers,), entry)


def _read(path: Path) -> bytes | None:
    """Return the content of a file; `None` if it does not exist or cannot be read."""
    with contextlib.suppress(OSError):
        return path.read_bytes()
    return None


def _clear(folder: Path, entries: Collection[LedgerEntry]) -> None:
    """Remove useless files: those that killed or refused processes left for periods that were drawn since."""
    names = {_path(folder, entry, what).name for entry in entries for what in ("frozen", "drawn")}
    for path in folder.iterdir():
        name = _NAME.fullmatch(path.name)
        # An `.unfinished` file has no name[1]: another process may be writing it.
        if name is not None and name[1] and int(name[1]) <= len(entries) and path.name not in names:
            with contextlib.suppress(OSError):
                path.unlink()
