"""Covariances of the numbers of tables, as files for programs without fitnoise. Post-processing of a plan only.

A folder of covariances holds `covariances.json`: the plan, the columns of each table, and the names of tables without a
file. For each other table it holds `NAME-covariances.csv`.

Some columns of a table are *by agreement*: the covariance of two numbers depends only on whether their rows agree in
such a column. The other columns are *by row*: the covariance depends on both values. A line has these fields:

| field | content |
|---|---|
| agree | a digit for each column by agreement: 1 if both rows agree there, 0 if they differ |
| row, other_row | both positions among the joint values of the columns by row, from 1; row ≤ other_row |
| covariance | the covariance of the two numbers |

Covariances follow from the plan and not from the data. They are exact for Gaussian noise of the stated scales.

Trust: a wrong covariance gives sums a wrong margin.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from fitnoise.errors import ReleaseError
from fitnoise.kernel.arrays import Indices
from fitnoise.mechanisms.numbers import TableNumbers
from fitnoise.mechanisms.tables import TablePart
from fitnoise.reading.refusals import UNWRITTEN
from fitnoise.reading.release import Release
from fitnoise.reading.release_files import Columns, csv_text, to_json
from fitnoise.request.workloads import Table, slug

FORMAT = 1
"""The version of covariances.json."""

DESCRIPTION = "covariances.json"

MAX_LINES = 2**18
"""The largest number of lines in the file of one table."""


def covariance_files(release: Release, names: Sequence[str] = ()) -> Iterator[tuple[str, str]]:
    """Yield the files of a folder of covariances: the name and the text of each.

    Args:
        release: The release.
        names: The names of tables; empty for all tables that have covariances in a file. covariances.json names the
            others as left out.

    Raises:
        ReleaseError: A named table has means, or more different covariances than a file holds.
    """
    documents, left_out = [], []
    for part in release.plan.groups:
        for name in part.publication.workload.tables.names:
            if name not in (names or (name,)):
                continue
            try:
                columns = covariances(part, name)
            except ReleaseError:
                if names:
                    raise
                left_out.append(name)
                continue
            document = _document(part, part.publication.workload[name])
            documents.append(document)
            yield document["file"], csv_text(columns, fixed=())
    plan = release.plan
    header = {"fitnoise_covariances": FORMAT, "plan": plan.hash, "confidence": plan.publication.confidence}
    yield DESCRIPTION, to_json({**header, "tables": documents, "left_out": left_out})


def _document(part: TablePart, table: Table) -> dict[str, Any]:
    """Return the entry of a table in covariances.json."""
    domain = part.publication.workload.domain
    by_agreement = _columns_by_agreement(part, table)
    columns = [
        {
            "name": column,
            "rows": rows,
            "by_agreement": by_agreement[i],
            # rows of explicit queries may overlap in any way
            "overlaps": table.matrix is not None
            or bool((table.view(column).operator(domain[column]).rmv(np.ones(rows)) > 1).any()),
        }
        for i, (column, rows) in enumerate(zip(table.labels(domain), table.shape(domain), strict=True))
    ]
    return {
        "name": table.name,
        "file": f"{slug(table.name)}-covariances.csv",
        "columns": columns,
        "counts": table.is_count,
        "gaussian": part.intervals.normal,
    }


def _columns_by_agreement(part: TablePart, table: Table) -> list[bool]:
    """Return True for each column by agreement; a column of one row is by row, since its rows never differ."""
    exchangeable = part.errors.exchangeable_columns(part.table_index(table.name))
    shape = table.shape(part.publication.workload.domain)
    return [i in exchangeable and rows > 1 for i, rows in enumerate(shape)]


def covariances(part: TablePart, name: str) -> Columns:
    """Return the covariances of a table's numbers as columns: agree, row, other_row, covariance.

    Args:
        part: The part of the plan with the table.
        name: The name of the table.

    Raises:
        ReleaseError: The table has means, or more than `MAX_LINES` different covariances.
    """
    workload = part.publication.workload
    if workload[name].averaged is not None:
        raise ReleaseError(
            "covariances-of-means",
            f"Table {name!r} has means, which have intervals and no covariances.",
            "",
            "Name other tables, or ask for the mean: fitnoise ask.",
            UNWRITTEN,
            place=name,
        )
    shape = workload[name].shape(workload.domain)
    by_agreement = _columns_by_agreement(part, workload[name])
    listed = tuple(n for n, agrees in zip(shape, by_agreement, strict=True) if not agrees)
    rows = math.prod(listed)
    patterns = list(itertools.product((1, 0), repeat=sum(by_agreement)))
    lines = len(patterns) * rows * (rows + 1) // 2
    if lines > MAX_LINES:
        raise ReleaseError(
            "covariances-exceed-file",
            f"The numbers of table {name!r} have {lines:,} different covariances.",
            f"A file holds at most {MAX_LINES:,}.",
            "Name other tables, and ask for sums of this one: fitnoise ask.",
            UNWRITTEN,
            place=name,
        )
    one, other = np.triu_indices(rows)
    inside = [
        np.stack(np.unravel_index(x, listed)) if listed else np.zeros((0, 1), dtype=np.intp) for x in (one, other)
    ]
    each: list[Columns] = []
    number = part.table_index(name)
    for pattern in patterns:
        positions = [0] * len(pattern), [1 - agrees for agrees in pattern]
        mine, theirs = (
            TableNumbers(part, number, _indices(by_agreement, x, y)) for x, y in zip(inside, positions, strict=True)
        )
        values = part.errors.covariance(mine, theirs)
        agree = np.full(len(one), "".join(map(str, pattern)), dtype=object)
        each.append({"agree": agree, "row": one + 1, "other_row": other + 1, "covariance": values})
    return {column: np.concatenate([x[column] for x in each]) for column in each[0]}


def _indices(by_agreement: Sequence[bool], listed: Indices, agreeing: Sequence[int]) -> Indices:
    """Return the position along each column, (columns, P), from those of both kinds of columns, each in order."""
    rows, fixed = iter(listed), iter(agreeing)
    columns = [np.full(listed.shape[1], next(fixed)) if agrees else next(rows) for agrees in by_agreement]
    return np.stack(columns) if columns else np.zeros((0, 1), dtype=np.intp)
