"""Publishing: rehearse, measure once, write."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from fitnoise.errors import LedgerError, ReleaseError
from fitnoise.kernel.counting import open_counter
from fitnoise.kernel.ledger import Ledger
from fitnoise.kernel.measure import measure
from fitnoise.mechanisms.documents import within_limits
from fitnoise.planning.plan import Plan
from fitnoise.reading.files import clear_leftovers, staged
from fitnoise.reading.release import Release, to_write


def release(
    plan: Plan,
    data: Any,
    *,
    ledger: str | os.PathLike[str] | Ledger,
    directory: str | os.PathLike[str] | None = None,
    tables: Iterable[str] | None = None,
    table: str | None = None,
    progress: Callable[[str], None] | None = None,
    notice: Callable[[str], None] | None = None,
) -> Release:
    """Measure a plan on data, once, and release its tables.

    Args:
        plan: from :func:`fitnoise.plan`.
        data: a CSV or Parquet file, a pattern, a folder of such files (in which folders called column=value hold a
            column), or a list of these; a DuckDB, SQLite, SPSS, SAS, Stata or Excel file; a database ("env:NAME", a
            variable of the environment that holds its URL, a URL without a password, or an Engine of SQLAlchemy), which
            counts where it is; "spark:TABLE", a session of Spark or its DataFrame; an Arrow, Polars or pandas frame; or
            an array of counts.
        ledger: the ledger, or its file (made when it does not exist); charged before any noise is drawn.
        directory: where to write the release; it must not exist, or be empty. None writes nothing.
        tables: names of the tables to write there as files; None writes all. The others can be rebuilt at any time.
        table: of a database or a DuckDB file; overrides the plan's.
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
    source = plan.publication.source
    if table is not None:
        source = replace(source, table=table)
    fate = "Nothing was measured and nothing was charged."
    try:
        with contextlib.ExitStack() as stack:
            stage = None if directory is None else stack.enter_context(staged(Path(directory)))
            for found in () if directory is None else clear_leftovers(Path(directory)):
                (notice or (lambda _: None))(found)
            tell("opening the data")
            counter = open_counter(data, plan.publication.domain, source, plan.publication.unit.bound)
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
