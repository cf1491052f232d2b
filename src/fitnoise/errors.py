"""Every error fitnoise raises on purpose, in one tree.

    FitnoiseError
    ├── DomainError          an attribute or its values are declared wrongly
    ├── WorkloadError        a table, query or target cannot be planned as written
    ├── SpecError            the specification file cannot be understood
    ├── PlanError            no plan could be made, or a plan is not what it claims
    │   ├── GapNotReached    the optimiser stopped short of the gap that was asked for
    │   ├── CapExceeded      the plan costs more than the specification allows
    │   └── SingularStrategy an integer strategy from which answers cannot be rebuilt
    ├── DataError            the data do not fit the declared domain
    ├── LedgerError          the ledger file is unusable, altered or busy
    │   └── BudgetExceeded   the charge does not fit in what is left
    └── ReleaseError         a release cannot be written, read or verified

A message says what was given, what is needed, what to do, and what did *not* happen
("nothing was measured, nothing was charged"). It never contains a value found in the data.
"""

from __future__ import annotations

import re

_PAST = re.compile(
    r"""(?: (?<=[.!?]) \s* | ; \s* | \A )              # a sentence of its own, or the last part of one
        (?: and\s+ )?
        [Nn]othing \s+ (?: is | was | were ) \s+ [^.;]*   # "Nothing was read and nothing was charged"
        (?: [.;] \s* (?= [Nn]othing\s | \Z ) | \Z )""",
    re.VERBOSE,
)
"""What an error says did not happen, as far as was known where it was raised."""


def without_past(message: str) -> str:
    """Return a message without what it says at its end of what did not happen.

    An operation that went on since the error was raised, or before it, knows better, and says so itself.

    Args:
        message: of an error.

    **Guarantees**: no sentence or part of a sentence about nothing having happened ends the message.
    """
    while (shorter := _PAST.sub("", message)) != message:
        message = shorter.rstrip()
    return message if not message or message[-1] in ".!?" else f"{message}."


def is_interruption(error: BaseException) -> bool:
    """Return True if an error is an interruption by a signal, or what an engine made of one.

    Args:
        error: that was raised. DuckDB makes a RuntimeError or an InterruptException of a signal.
    """
    told: BaseException | None = error
    for _ in range(20):
        if told is None:
            return False
        engine = isinstance(told, RuntimeError) and "interrupted" in str(told).lower()
        if isinstance(told, KeyboardInterrupt) or engine or type(told).__name__ == "InterruptException":
            return True
        told = told.__cause__ or told.__context__
    return False


class FitnoiseError(Exception):
    """Root of the tree: catch this to catch everything fitnoise raises on purpose."""

    exit_code = 1


class DomainError(FitnoiseError, ValueError):
    """An attribute or its values are declared wrongly."""

    exit_code = 3


class WorkloadError(FitnoiseError, ValueError):
    """A table, a query or a target cannot be planned as written."""

    exit_code = 3


class SpecError(FitnoiseError, ValueError):
    """The specification cannot be understood."""

    exit_code = 3


class PlanError(FitnoiseError):
    """No plan could be made, or a plan is not what it claims to be."""

    exit_code = 4


class GapNotReached(PlanError):
    """The optimiser stopped with a certified gap larger than the one asked for."""


class CapExceeded(PlanError):
    """The plan costs more than the cap its specification declares."""

    exit_code = 5


class SingularStrategy(PlanError):
    """The integers of a strategy are singular: its answers could not be rebuilt."""


class DataError(FitnoiseError, ValueError):
    """The data do not fit the declared domain. Never contains a value from the data."""

    exit_code = 6


class LedgerError(FitnoiseError):
    """The ledger file is unusable, was altered, or is held by another process."""

    exit_code = 7


class BudgetExceeded(LedgerError):
    """The charge does not fit in what is left of the budget."""

    exit_code = 5


class ReleaseError(FitnoiseError):
    """A release cannot be written, read or verified."""

    exit_code = 8
