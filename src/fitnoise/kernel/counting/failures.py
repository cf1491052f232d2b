"""Failures of reading, whose errors may quote the data. Part of the trust kernel."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from fitnoise.errors import DataError

_T = TypeVar("_T")


class UnreadableRecords(DataError):
    """The error for records that the engine could not read; with one reader it may read them (`for_single_reader`)."""


def kind_of(error: Exception) -> str:
    """Return the name of an error's class: the text of the error may hold a value."""
    return type(error).__name__


def quietly(action: Callable[[], _T], failed: DataError, reason_of: Callable[[Exception], str] = kind_of) -> _T:
    """Run an action whose errors may quote the data; where it fails, raise an error of fitnoise without a context.

    Args:
        action: The function to run. It may raise any error, and a DataError passes unchanged.
        failed: The error for a failed action. The error that is raised adds the kind of the failure to it.
        reason_of: The function that returns the kind of a failure, without any text that may hold a value.

    Raises:
        UnreadableRecords: The action failed. The code, the given sentence and the outcome are those of `failed`.
        DataError: Memory was exhausted, or the action raised this error.
    """
    try:
        return action()
    except DataError:
        raise
    except Exception as error:  # also what frames raise while they hand over their columns
        reason = reason_of(error)
    # All errors below are raised outside `except`: as their context, the engine's error could show a value.
    if "Memory" in reason:
        raise DataError(
            "memory-exhausted",
            failed.given,
            f"The reported error is {reason}.",
            "Allow more memory, or plan tables with fewer cells.",
            failed.outcome,
            place=failed.place,
        )
    needed = " ".join(filter(None, (failed.needed, f"The reported error is {reason}.")))
    raise UnreadableRecords(failed.slug, failed.given, needed, failed.action, failed.outcome, place=failed.place)


def not_opened(path: Path) -> DataError:
    """Return the error for a file of data that cannot be opened."""
    return DataError(
        "data-file-not-opened",
        f"The file {path.name!r} cannot be opened.",
        "",
        "Ask its owner to let you read it.",
        "Nothing was measured and nothing was charged.",
        place=path.name,
    )
