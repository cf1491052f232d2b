"""How the command line speaks: data on stdout, words and progress on stderr, plain text away from a terminal."""

from __future__ import annotations

import contextlib
import json
import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TextIO

from rich.cells import cell_len
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from fitnoise.interfaces.report import called, database, price_line, proof, shared, targets_line
from fitnoise.mechanisms.finite.choosing import Made
from fitnoise.mechanisms.summaries import TableSummary
from fitnoise.planning.plan import Plan
from fitnoise.reading.release import Release
from fitnoise.request.publication import Goal, Publication

PATIENCE = 5.0
"""Seconds between two lines of progress away from a terminal."""

_ASCII = str.maketrans(
    {
        "±": "+/-",
        "≥": ">=",
        "≤": "<=",
        "ρ": "rho",
        "ε": "epsilon",
        "δ": "delta",
        "μ": "mu",
        "…": "...",
        "–": "-",
        "×": "x",
    }
)


def say(text: str = "") -> None:
    """Words, on stderr."""
    _put(text, sys.stderr)


def emit(text: str = "") -> None:
    """Data, on stdout."""
    _put(text, sys.stdout)


def emit_json(document: Any) -> None:
    """A JSON document, on stdout, in ASCII."""
    sys.stdout.write(json.dumps(document, indent=2, allow_nan=False) + "\n")


def emit_csv(text: str) -> None:
    """A CSV file on stdout: its very bytes, in UTF-8; on a terminal, lines that cannot command it."""
    bytes_out = getattr(sys.stdout, "buffer", None)
    if bytes_out is None or sys.stdout.isatty():
        for line in text.removesuffix("\n").split("\n"):
            emit(line)
        return
    sys.stdout.flush()
    bytes_out.write(text.encode("utf-8"))


def emit_table(header: Sequence[str], rows: Sequence[Sequence[str]], *, numeric: Sequence[int] = ()) -> None:
    """A table on stdout, in aligned columns, never cut. `numeric` columns are flush right."""
    cells = [[_readable(text, sys.stdout) for text in row] for row in (header, *rows)]
    widths = [max(cell_len(text) for text in column) for column in zip(*cells, strict=True)]
    for row in cells:
        padded = []
        for i, (text, width) in enumerate(zip(row, widths, strict=True)):
            space = " " * (width - cell_len(text))
            padded.append(space + text if i in numeric else text + space)
        emit("  ".join(padded).rstrip())


def _put(text: str, stream: TextIO) -> None:
    stream.write(_readable(text, stream) + "\n")


def _readable(text: str, stream: TextIO) -> str:
    """One line the stream can show: control characters (a label may hold them) escaped, signs it lacks spelled out."""
    line = "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
    encoding = stream.encoding or "utf-8"
    try:
        line.encode(encoding)
    except UnicodeEncodeError:
        line = line.translate(_ASCII).encode(encoding, "backslashreplace").decode(encoding)
    return line


@contextlib.contextmanager
def progress(what: str) -> Iterator[Callable[[str], None]]:
    """A spinner with the current stage on a terminal, plain lines elsewhere. Yields the function to tell it."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _plain_progress(what)
        return
    columns = (SpinnerColumn("line"), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(what)
        yield lambda stage: bar.update(task, description=_readable(f"{what}: {stage}", sys.stderr))


def _plain_progress(what: str) -> Callable[[str], None]:
    told = time.monotonic()
    say(f"{what} …")

    def tell(stage: str) -> None:
        nonlocal told
        if time.monotonic() - told >= PATIENCE:
            told = time.monotonic()
            say(f"{what}: {stage}")

    return tell


def show_plan(plan: Plan) -> None:
    """The plan, its price and its proof, for people."""
    publication = plan.publication
    goal = publication.objective.goal
    total = goal is Goal.TOTAL_ERROR
    emit_table(
        (
            "table",
            "numbers",
            "target on average" if total else "target",
            "asked ±",
            "worst ±" if total else "achieved ±",
            shared(plan),
        ),
        [
            (
                called(t.name, t.tables),
                f"{t.numbers:,}",
                t.target,
                f"{t.target_moe:.4g}",
                f"{t.achieved_moe:.4g}",
                f"{t.price:.1%}",
            )
            for t in plan.summaries
        ],
        numeric=(1, 3, 4, 5),
    )
    emit()
    if plan.finite:
        show_finite(plan)
        emit()
    for line in (*targets_line(plan), *price_line(plan), *database(plan), *proof(plan)):
        emit(line)
    own = ", to its own target," if total else ""
    paid = f"rho = {plan.separate_rho:.4f}"
    if plan.exact_epsilon is not None:
        paid = f"epsilon = {math.sqrt(2 * plan.separate_rho):.4f}"
    emit(f"otherwise  noise added to each number on its own{own} would cost {paid}")
    if plan.decomposition.query_shift > 1e-12:  # below, it is the rounding of any sum
        emit(f"note       queries are answered to within {plan.decomposition.query_shift:.1e} per record")


def show_finite(plan: Plan) -> None:
    """What is promised of each question with finitely many answers, for people."""
    emit_table(
        ("question", "results", "mechanism", "epsilon", "hit rate", "margin ±", "MAE", "RMSE", "leakage (bits)"),
        [
            (
                s.name,
                f"{s.results:,}",
                s.family,
                f"{s.epsilon:.6g}",
                f"{s.hit_rate:.2%}",
                *("–" if x is None else f"{x:.4g}" for x in (s.moe, s.mae, s.rmse)),
                f"{s.leakage:.3f}",
            )
            for s in plan.finite_summaries
        ],
        numeric=(1, 3, 4, 5, 6, 7, 8),
    )


def show_tables(tables: Sequence[TableSummary]) -> None:
    """The tables of a release, for people."""
    emit_table(
        ("table", "numbers", "margin ±", "confidence"),
        [
            (called(t.name, t.tables), f"{t.numbers:,}", f"{t.achieved_moe:.4g}", f"{100 * t.confidence:.7g} %")
            for t in tables
        ],
        numeric=(1, 2, 3),
    )


def show_answers(release: Release) -> None:
    """The same, for people."""
    emit_table(
        ("answer", "value", "margin ±", "confidence", "hit rate"),
        [
            (
                a.name,
                ", ".join(str(v) for v in a.parts),
                "–" if a.moe is None else f"{a.moe:.15g}",
                f"{100 * a.confidence:.7g} %",
                f"{a.hit_rate:.2%}",
            )
            for a in release.finite.values()
        ],
        numeric=(2, 3, 4),
    )


def show_choices(publication: Publication, made: Sequence[Made]) -> None:
    """The same, for people."""
    for query, m in zip(publication.finite, made, strict=True):
        emit()
        emit(f"{query.name}: {m.why}")
        for line in m.choice.table().split("\n") if m.choice else ():
            emit(line)
