"""Publishing: rehearse, measure once, write; or count here, and publish elsewhere."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from fitnoise.errors import DataError, LedgerError, ReleaseError
from fitnoise.kernel.arguments import checked
from fitnoise.kernel.counting import Counter, open_counter
from fitnoise.kernel.counting.sealed import PUBLIC, is_sealed, key_pair, read_key
from fitnoise.kernel.ledger import Ledger
from fitnoise.kernel.measure import measure, sealed
from fitnoise.mechanisms.documents import within_limits
from fitnoise.planning.plan import Plan
from fitnoise.reading.files import clear_leftovers, replace_file, staged
from fitnoise.reading.release import Release, to_write


@checked(ReleaseError, "Nothing was measured, nothing was charged.")
def release(
    plan: Plan,
    data: Any,
    *,
    ledger: str | os.PathLike[str] | Ledger,
    directory: str | os.PathLike[str] | None = None,
    tables: Iterable[str] | None = None,
    table: str | None = None,
    private_key: str | os.PathLike[str] | None = None,
    progress: Callable[[str], None] | None = None,
    notice: Callable[[str], None] | None = None,
) -> Release:
    """Measure a plan on data, once, and release its tables.

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
        progress: told the name of each stage.
        notice: told, a sentence each, of folders that killed releases to this directory left beside it. They are
            removed, but for those in use and those with a whole release.

    Raises:
        DataError: the data do not fit the domain; nothing measured, nothing charged.
        BudgetExceeded: the charge does not fit; nothing measured, nothing charged.
        LedgerError: the ledger cannot be used; nothing measured.
        ReleaseError: the directory cannot be written. When this happens after measuring, the charge stays.
    """
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
            written = () if stage is None else to_write(plan, tables)
            _rehearse(plan, stage, written)
            book = ledger if isinstance(ledger, Ledger) else stack.enter_context(Ledger(ledger))
            tell("counting, charging and measuring")
            measured = measure(plan.order, counter, book, progress=lambda x: tell(f"counting, {x:.0%}"))
            fate = "The data were measured before: the charge stays in the ledger."
            count = len(plan.groups)
            answers = [y for part in measured.answers[:count] for y in part]
            drawn = measured.answers[count:]
            result = Release(plan, answers, measured.charge, [int(x.item()) for (x,) in drawn])
            if stage is not None:
                tell("writing the tables")
                result._fill(stage, written)
    except ReleaseError as error:
        raise ReleaseError(f"{error} {fate}") from error
    return result


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

    Raises:
        DataError: the data do not fit the domain, or there is no such key; nothing written.
        CapExceeded, PlanError: the plan cannot be released; nothing read.
        ReleaseError: neither a key is given nor `plain`, or both; or the file exists, or cannot be written.
    """
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
    if not within_limits(plan.to_json()):
        raise ReleaseError("its plan is longer than what is read of any, so that nobody could verify it: ask for less.")
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
