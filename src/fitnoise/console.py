"""How the command line speaks: data on stdout, words and progress on stderr, plain text away from a terminal."""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TextIO

from rich.cells import cell_len
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from fitnoise.ledger import Quote
from fitnoise.plans import Plan

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


def plan_document(plan: Plan) -> dict[str, Any]:
    """What `fitnoise plan --json` prints."""
    publication = plan.publication
    return {
        "cost_squared": plan.cost_squared,
        "bound": plan.bound,
        "gap": plan.gap,
        "rho": plan.rho,
        "mu": plan.mu,
        "delta": publication.delta,
        "epsilon": plan.epsilon(),
        "epsilon_nominal": plan.epsilon(nominal=True),
        "privacy_unit": publication.unit.describe(),
        "source": publication.source.name,
        "status": plan.status,
        "hash": plan.hash,
        "numbers": plan.numbers,
        "answers": plan.answers,
        "relaxation": plan.relaxation if publication.budget is not None else 1.0,
        "separate_rho": plan.separate_rho,
        "query_shift": plan.decomposition.query_shift,
        "tables": [
            {
                "name": t.name,
                "numbers": t.numbers,
                "target": t.target,
                "confidence": t.confidence,
                "target_moe": t.target_moe,
                "achieved_moe": t.achieved_moe,
                "price": t.price,
            }
            for t in plan.tables
        ],
    }


def show_plan(plan: Plan) -> None:
    """The plan, its price and its proof, for people."""
    publication = plan.publication
    relative = publication.budget is not None
    emit_table(
        ("table", "numbers", "target", "asked ±", "achieved ±", "share of price"),
        [
            (
                t.name,
                f"{t.numbers:,}",
                t.target,
                f"{t.target_moe:.4g}",
                f"{t.achieved_moe:.4g}",
                f"{t.price:.1%}",
            )
            for t in plan.tables
        ],
        numeric=(1, 3, 4, 5),
    )
    emit()
    if relative:
        emit(f"targets    relative: the budget buys {plan.relaxation**0.5:.4g} times the margins asked for")
    emit(f"price      rho = {plan.rho:.7f}   mu = {plan.mu:.6f}   for {publication.unit.describe()}")
    emit(
        f"           epsilon = {plan.epsilon():.4f} guaranteed, {plan.epsilon(nominal=True):.4f} nominal, "
        f"at delta = {publication.delta:g}"
    )
    emit(
        f"proof      cost {plan.cost_squared:.8g} ≥ bound {plan.bound:.8g}: no mechanism of its kind can be cheaper "
        f"by more than {plan.gap:.1e}"
    )
    emit(f"           ({plan.status}; {plan.answers:,} noisy answers for {plan.numbers:,} numbers)")
    emit(f"otherwise  noise added to each number on its own would cost rho = {plan.separate_rho:.4f}")
    if plan.decomposition.query_shift > 1e-12:  # below, it is the rounding of any sum
        emit(f"note       queries are answered to within {plan.decomposition.query_shift:.1e} per record")


def balance_document(balance: Quote) -> dict[str, Any]:
    """What the ledger says of one account."""
    return {
        "source": balance.account.source,
        "privacy_unit": balance.account.unit,
        "spent": float(balance.spent),
        "spent_exact": str(balance.spent),
        "cap": None if balance.cap is None else float(balance.cap),
        "remaining": None if balance.remaining is None else float(balance.remaining),
    }


def balance_line(balance: Quote) -> str:
    """The same, for people."""
    left = "no cap is set" if balance.remaining is None else f"{float(balance.remaining):.6f} left"
    cap = "" if balance.cap is None else f" of {float(balance.cap):.6f}"
    return f"{balance.account.source} ({balance.account.unit}): rho {float(balance.spent):.6f} spent{cap}, {left}"
