"""Standard errors of sampling for the numbers of tables, as reports and exports take and state them.

A report or a manifest lists them, so that it can be written again without the files.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from fitnoise.errors import ReleaseError
from fitnoise.kernel.arrays import Floats
from fitnoise.kernel.checks import is_real
from fitnoise.reading.labelled_numbers import RowLabels
from fitnoise.reading.layouts import Tabled, publication_of
from fitnoise.reading.refusals import UNWRITTEN, unknown_table
from fitnoise.reading.sampling import sampling_errors

ListedErrors = dict[str, list[float | None]]
"""For some tables, the standard error of each number in the order of the rows; None without one."""


def list_errors(source: Tabled, stated: Mapping[str, Any] | None, names: Collection[str]) -> ListedErrors:
    """Return the given standard errors of sampling as lists.

    Args:
        source: The release, or the tables made of releases.
        stated: For some tables a CSV file or a data frame, as for :meth:`Estimates.with_sampling_error`. Numbers
            without a row have no sampling error. None states none.
        names: The tables that are written.

    Raises:
        ReleaseError: A table is not written, or not of unbiased counts or sums; or as for `with_sampling_error`.
    """
    out = {}
    for name, errors in (stated or {}).items():
        _check_table(source, name, names)
        numbers = sampling_errors(_rows(source, name), errors, is_complete=False).tolist()
        out[name] = [None if math.isnan(x) else x for x in numbers]
    return out


def listed_arrays(source: Tabled, listed: Any, names: Collection[str]) -> dict[str, Floats]:
    """Return listed standard errors as arrays, NaN for None.

    Args:
        source: The release, or the tables made of releases.
        listed: The lists, as a report or a manifest states them.
        names: The tables that are written.

    Raises:
        ReleaseError: The lists are no standard errors of numbers of these tables.
    """
    if not isinstance(listed, dict):
        raise _misfit()
    out = {}
    for name, numbers in listed.items():
        _check_table(source, name, names)
        is_list = isinstance(numbers, list) and len(numbers) == math.prod(_rows(source, name).shape)
        if not is_list or not all(x is None or (is_real(x) and 0 <= x < math.inf) for x in numbers):
            raise _misfit()
        out[name] = np.array([math.nan if x is None else x for x in numbers], dtype=np.float64)
    return out


def _misfit() -> ReleaseError:
    return ReleaseError(
        "listed-errors-misfit",
        "The listed standard errors of sampling are not one for each number of a table.",
        "Each is a number of at least 0, or null.",
        "Bring the file back as it was written.",
        UNWRITTEN,
        place="sampling_errors",
    )


def _check_table(source: Tabled, name: str, names: Collection[str]) -> None:
    """Raise ReleaseError for a table that is not written, or whose numbers have no combined error."""
    if name not in names:
        raise unknown_table(name, [*names], UNWRITTEN)
    if "moe" not in source[name]:
        raise ReleaseError(
            "sampling-error-of-table",
            f"Standard errors of sampling are given for table {name!r}, which has means or biased numbers.",
            "fitnoise combines sampling error and noise for unbiased counts and sums.",
            "Leave these standard errors out.",
            UNWRITTEN,
            place="sampling_errors",
        )


def _rows(source: Tabled, name: str) -> RowLabels:
    """Return the rows of a table: for each attribute the numbers of its labels, and these in each of its columns.

    An attribute that is added up has one label, and no file needs to state it.
    """
    workload = publication_of(source, name).workload
    table = workload[name]
    labels, homes, stubs = dict[str, tuple[int, ...]](), dict[str, str](), dict[str, dict[str, dict[Any, Any]]]()
    for attribute, stub in zip(table.labels(workload.domain), table.stubs(workload.domain), strict=True):
        if attribute not in table.summed:
            # two values may have one label, so the rows are numbered
            labels[attribute] = tuple(range(len(stub[attribute])))
            stubs[attribute] = {column: dict(enumerate(values)) for column, values in stub.items()}
            homes[attribute] = attribute
    return RowLabels(labels, homes, stubs=stubs)
