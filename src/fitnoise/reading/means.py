"""Means of amounts: a ratio with an interval, from the counts at both ends of a range.

A record of x counts (high − x)/(high − low) at the lower end of the range, and the rest at the upper one. With counts c
and d there, the number of records is c + d, and their sum is low · c + high · d. So a mean is a ratio of two forms, and
its interval is that of :func:`fitnoise.reading.ratio_intervals.inverted`. Post-processing only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp

from fitnoise.kernel.arrays import Floats
from fitnoise.reading.laws import law
from fitnoise.reading.linear_forms import AnswerSource, Forms
from fitnoise.reading.ratio_intervals import inverted
from fitnoise.reading.release_files import MEAN_COLUMNS, Columns, Stub, stub_columns
from fitnoise.request.domain import Domain
from fitnoise.request.workloads import Table, slug

COUNTS_AT_ENDS = "counts_at_ends"
"""The ending of the name of the file with the counts of a table of means; no table's own file can have it."""


def file_stubs(table: Table, domain: Domain) -> dict[str, tuple[Stub, ...]]:
    """Return the files of a table: by their names, without endings, the stubs of their rows.

    Args:
        table: The table; for means, a second file has the counts from which they are made.
        domain: The domain of the table.
    """
    file_name, stubs = slug(table.name), table.stubs(domain)
    if table.averaged is None:
        return {file_name: stubs}
    others = tuple(stub for a, stub in zip(table.attributes, stubs, strict=True) if a != table.averaged[0])
    return {file_name: others, f"{file_name}-{COUNTS_AT_ENDS}": stubs}


def mean_columns(source: AnswerSource, number: int) -> Columns:
    """Return a table of means as columns: the other attributes, value, low, high, in units of the amount.

    Args:
        source: The noisy answers of the table.
        number: The index of the table in its workload, from 0.

    **Guarantees**
        * the true mean of the amounts as they were read is from `low` to `high` with at least the table's confidence,
          if there are records. The lattice of the noise can lower the confidence by at most 6·10⁻⁵;
        * the mean and both ends lie in the range of the amount.
    """
    publication = source.part.publication
    table = publication.workload.tables[number]
    stubs = file_stubs(table, publication.domain)[slug(table.name)]
    confidence = table.target.level(publication.workload.confidence)
    value, low, high = means(source, number, [False] * len(table.attributes), confidence)
    return {**stub_columns(stubs), **dict(zip(MEAN_COLUMNS, map(np.ravel, (value, low, high)), strict=True))}


def means(source: AnswerSource, number: int, sums: Sequence[bool], confidence: float) -> tuple[Floats, Floats, Floats]:
    """Return means and the ends of their intervals, in the shape of the table, of length 1 along the amount.

    An attribute with a mean of all its rows is longer by 1. Where the estimated count is 0, the mean is the middle of
    its interval.

    Args:
        source: The noisy answers of the table.
        number: The index of the table in its workload, from 0.
        sums: For each attribute of the table, True if the mean of all its rows follows after the rows; False for the
            amount.
        confidence: The confidence of each interval.
    """
    publication, wide = source.part.publication, source.shape(number)
    table = publication.workload.tables[number]
    assert table.averaged is not None  # noqa: S101 - other tables have no means
    name = table.averaged[0]
    axis = table.attributes.index(name)
    selected = np.ix_(*(range(n if s else n - 1) for n, s in zip(wide, sums, strict=True)))
    places = np.arange(math.prod(wide)).reshape(wide)[selected]
    one, other = (places.take([i], axis) for i in (0, 1))
    low, high = map(float, table.labels(publication.domain)[name])
    # entry by entry, a form has the count at the lower end and the count at the upper end
    indices = np.tile(np.arange(one.size), 2), np.concatenate([one.ravel(), other.ravel()])

    def form(at_one: float, at_other: float) -> Forms:
        each = sp.csr_array((np.repeat([at_one, at_other], one.size), indices), shape=(one.size, math.prod(wide)))
        return Forms(one.size, {(source, number): each})

    total, count = form(low, high), form(1.0, 1.0)
    a, b = total.values(), count.values()
    low_end, high_end, _ = inverted(
        law(total, count), (a, b), (np.full(one.size, low), np.full(one.size, high)), confidence
    )
    with np.errstate(all="ignore"):
        value = np.clip(np.where(b == 0, (low_end + high_end) / 2, a / b), low_end, high_end)
    return value.reshape(one.shape), low_end.reshape(one.shape), high_end.reshape(one.shape)
