"""All errors that fitnoise raises on purpose, in one tree.

    FitnoiseError
    ├── DomainError          an attribute or its values are declared wrongly
    ├── WorkloadError        a table, query or target cannot be planned as written
    ├── SpecError            the specification file cannot be understood
    ├── PlanError            no plan could be made, or a plan is not what it claims
    │   ├── GapNotReached    the optimiser stopped above the requested gap
    │   ├── CapExceeded      the plan costs more than the specification allows
    │   └── SingularStrategy an integer strategy from which answers cannot be rebuilt
    ├── DataError            the data do not fit the declared domain
    ├── LedgerError          the ledger file is unusable, altered or busy
    │   └── BudgetExceeded   the charge does not fit in what is left
    └── ReleaseError         a release cannot be written, read or verified

Each error has a stable code, four sentences and, where one is at fault, a place:

    raise SpecError(
        "left-out-needs-id",
        "privacy.left_out is set, and privacy.id is not.",   # what was given
        "Counting persons needs an id.",                     # what is needed
        "Set privacy.id, or remove privacy.left_out.",       # what to do
        "Nothing was planned.",                              # what did not happen
        place="privacy.left_out",
    )

The code of this error is `spec.left-out-needs-id`. Codes never change; `docs/reference/error_codes.md` lists them all.
No sentence contains a value found in the data, or a noise scale.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import ClassVar, Self, TypeAlias

ErrorValue: TypeAlias = str | int | Mapping[str, int]
"""A value in the sentences of an error."""


def is_interruption(error: BaseException) -> bool:
    """Return True if an error or one of its causes is an interruption by a signal, or an engine's error for one.

    Args:
        error: The raised error. DuckDB turns a signal into a RuntimeError or an InterruptException.
    """
    cause: BaseException | None = error
    for _ in range(20):  # a chain of causes can be a circle
        if cause is None:
            return False
        # recognised by text or class name: engines are optional packages, so their classes cannot be imported here
        engine = isinstance(cause, RuntimeError) and "interrupted" in str(cause).lower()
        if isinstance(cause, KeyboardInterrupt) or engine or type(cause).__name__ == "InterruptException":
            return True
        cause = cause.__cause__ or cause.__context__
    return False


def advise_name(name: object, names: Sequence[object], otherwise: str) -> str:
    """Return the question for the nearest of some names or values; without a near one, another sentence.

    Args:
        name: The unknown name or value.
        names: The known names or values. Only texts are near a text. A value of another type is named if it has the
            same text, with the advice to add or remove quotes.
        otherwise: The other sentence.
    """
    same = [x for x in names if str(x) == str(name)]
    if same:
        return f"Write {same[0]!r} {'in' if isinstance(same[0], str) else 'without'} quotes."
    # without regard to capitals, and of two names that differ in them alone the first
    by_text = {x.casefold(): x for x in reversed(names) if isinstance(x, str)}
    similar = difflib.get_close_matches(name.casefold(), by_text, 1) if isinstance(name, str) else []
    return f"Did you mean {by_text[similar[0]]!r}?" if similar else otherwise


class FitnoiseError(Exception):
    """Root of the tree: catch this to catch everything fitnoise raises on purpose.

    Args:
        slug: Name of the error within its class, such as "left-out-needs-id"; lower-case words joined by hyphens.
        given: Sentence that says what was given.
        needed: Sentence that says what is needed; empty where the action says it.
        action: Sentence that says what to do.
        outcome: Sentence that says what did not happen, and what stays.
        place: Key, column or field at fault; None where no single one is.
        values: Texts and numbers in the sentences, by the names that texts in other languages have for them. A mapping
            is a number for each name, such as a number of records for each column.

    **Guarantees**

    * The message is the sentences, joined by one space, in the order of the arguments.
    * The text of the error is its message, after the place and a colon where the message does not name the place.
    * A copy, also one made by another process, has the same code, sentences, place and values.
    """

    exit_code: ClassVar[int] = 1
    """Exit status of the command line for an error of this class."""

    area = "fitnoise"
    """Area of the code: that of the class, or of the error whose code this one takes."""

    def __init__(
        self,
        slug: str,
        given: str,
        needed: str,
        action: str,
        outcome: str,
        *,
        place: str | None = None,
        values: Mapping[str, ErrorValue] = MappingProxyType({}),
    ) -> None:
        # pickle calls the class with these, and then restores place and values, which are attributes
        super().__init__(slug, given, needed, action, outcome)
        self.slug, self.given, self.needed, self.action, self.outcome = slug, given, needed, action, outcome
        self.place, self.values = place, dict(values)

    @property
    def code(self) -> str:
        """The stable code: the area and the slug, such as `spec.left-out-needs-id`."""
        return f"{self.area}.{self.slug}"

    @property
    def reason(self) -> str:
        """The text without its outcome: what was given, what is needed and what to do."""
        return " ".join(filter(None, (self.given, self.needed, self.action)))

    @property
    def message(self) -> str:
        """The sentences, joined by one space."""
        return " ".join(filter(None, (self.reason, self.outcome)))

    def __str__(self) -> str:
        # a sentence often names the key at fault, and must not name it twice
        return self.message if self.place is None or self.place in self.message else f"{self.place}: {self.message}"

    def with_outcome(self, outcome: str) -> Self:
        """Return a copy with another outcome, because an operation knows its outcome better than its parts do.

        Args:
            outcome: Sentence that replaces the error's own.
        """
        return self._with(outcome=outcome)

    def with_action(self, action: str) -> Self:
        """Return a copy with another advice, because an operation knows more of what would do.

        Args:
            action: Sentence that replaces the error's own.
        """
        return self._with(action=action)

    def with_place(self, place: str) -> Self:
        """Return a copy at another place.

        Args:
            place: Key, column or field at fault.
        """
        return self._with(place=place)

    def _with(self, **changes: str) -> Self:
        changed = type(self).__new__(type(self))  # a subclass may take other arguments
        vars(changed).update(vars(self) | changes)
        changed.args = (changed.slug, changed.given, changed.needed, changed.action, changed.outcome)
        return changed


class DomainError(FitnoiseError, ValueError):
    """An attribute or its values are declared wrongly."""

    area = "domain"
    exit_code = 3


class WorkloadError(FitnoiseError, ValueError):
    """A table, a query or a target cannot be planned as written."""

    area = "workload"
    exit_code = 3


class SpecError(FitnoiseError, ValueError):
    """The specification cannot be understood.

    problems: Where there are several, each with its code and place.
    """

    area = "spec"
    exit_code = 3
    problems: tuple[FitnoiseError, ...] = ()


class PlanError(FitnoiseError):
    """No plan could be made, or a plan is not what it claims to be."""

    area = "plan"
    exit_code = 4


class GapNotReached(PlanError):
    """The optimiser stopped with a certified gap larger than the requested gap."""


class CapExceeded(PlanError):
    """The plan costs more than the cap its specification declares."""

    exit_code = 5


class SingularStrategy(PlanError):
    """The integers of a strategy are singular: its answers could not be rebuilt."""


class DataError(FitnoiseError, ValueError):
    """The data do not fit the declared domain. Never contains a value from the data."""

    area = "data"
    exit_code = 6


class LedgerError(FitnoiseError):
    """The ledger file is unusable, was altered, or is held by another process."""

    area = "ledger"
    exit_code = 7


class BudgetExceeded(LedgerError):
    """The charge does not fit in what is left of the budget."""

    exit_code = 5


class ReleaseError(FitnoiseError):
    """A release cannot be written, read or verified."""

    area = "release"
    exit_code = 8
