"""Errors of class ReleaseError that several modules raise: one function for each code."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from fitnoise.errors import ReleaseError
from fitnoise.request.domain import Domain
from fitnoise.request.workloads import list_names

UNESTIMATED = "Nothing was estimated."

UNCOMPUTED = "Nothing was computed."

UNREAD = "Nothing was read."

UNWRITTEN = "Nothing was written."

UNMADE = "No table was made."


def unknown_table(name: str, names: Sequence[str], outcome: str) -> ReleaseError:
    """Return the error for a name that no table has.

    Args:
        name: Name that was given.
        names: Names of all tables.
        outcome: Sentence that says what did not happen.
    """
    return ReleaseError(
        "unknown-table",
        f"There is no table {name!r}.",
        "",
        f"Choose one of {list_names(list(names))}." if names else "Use a release that has tables.",
        outcome,
    )


def repeated_table(outcome: str) -> ReleaseError:
    """Return the error for a list that names a table twice."""
    return ReleaseError("repeated-table", "A table is named twice.", "", "Name each table once.", outcome)


def repeated_release(needed: str, outcome: str, fault: str = "A release is given twice.") -> ReleaseError:
    """Return the error for a release that is given twice.

    Args:
        needed: Sentence that says why releases must differ.
        outcome: Sentence that says what did not happen.
        fault: Sentence that says which release is given twice.
    """
    return ReleaseError("repeated-release", fault, needed, "Give each release once.", outcome)


def existing_place(name: str, outcome: str) -> ReleaseError:
    """Return the error for a file or folder to be made that exists already."""
    return ReleaseError("place-exists", f"{name!r} exists already.", "", "Choose another name.", outcome)


def missing_folder(path: Path) -> ReleaseError:
    """Return the error for a file to be made whose folder does not exist, or cannot be written."""
    return ReleaseError(
        "folder-not-writable",
        f"{path.name!r} cannot be written.",
        f"It needs an existing, writable folder {path.parent.name!r}.",
        "Make this folder if it is missing, or make it writable, or choose another place.",
        UNWRITTEN,
    )


def missing_package(purpose: str, package: str, extra: str, outcome: str) -> ReleaseError:
    """Return the error for a package that is not installed.

    Args:
        purpose: Subject of the sentence: a plural noun with a capital letter, such as "Figures".
        package: Name of the package.
        extra: Name of the extra of fitnoise that installs it.
        outcome: Sentence that says what did not happen.
    """
    return ReleaseError(
        "package-missing",
        f"{purpose} need {package}, which is not installed.",
        "",
        f"Install it: pip install 'fitnoise[{extra}]'.",
        outcome,
    )


def too_many_numbers(limit: int, outcome: str) -> ReleaseError:
    """Return the error for tables with more numbers than one page or file shows.

    Args:
        limit: Largest count of numbers, added up over the tables.
        outcome: Sentence that says what did not happen.
    """
    return ReleaseError(
        "too-many-numbers",
        f"These tables have more than {limit:,} numbers.",
        f"At most {limit:,} numbers are written at once.",
        "Name fewer tables.",
        outcome,
    )


def no_means(name: str) -> ReleaseError:
    """Return the error for a table that shows no means."""
    return ReleaseError(
        "no-table-of-means",
        f"{name!r} is no table of means.",
        "Counts at the ends of a range belong to tables of means.",
        "Name a table of means.",
        "Nothing was read.",
    )


def unknown_attribute(name: str, domain: Domain, key: str) -> ReleaseError:
    """Return the error for a name that no attribute and no level of a release has.

    Args:
        name: Name that was given.
        domain: The attributes of the release.
        key: Argument in which the name was given. Amounts are choices only for `having`.
    """
    homes = [home for home in domain if key == "having" or home not in domain.steps]
    return ReleaseError(
        "unknown-attribute",
        f"The release has no attribute {name!r}.",
        "",
        f"Choose one of {[x for home in homes for x in (home, *domain[home].levels)]}.",
        UNESTIMATED,
        place=key,
    )
