"""The values that no number of a table counts, in words: the one place that decides which values a table covers.

Some number of a table counts a record if and only if its values are in none of the cells that `uncounted` lists.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import final

import numpy as np

from fitnoise.request.attributes import Attribute, Binned
from fitnoise.request.domain import Domain
from fitnoise.request.finite_queries import FiniteQuery
from fitnoise.request.selections import Selection
from fitnoise.request.workloads import Table

MAX_PIECES = 8
"""The number of printed pieces of a list of values; one more is printed if it is the last."""


@final
@dataclass(frozen=True)
class ValueList:
    """Values of an attribute, or of several, in few words.

    name: The name of the attribute, or of several.
    pieces: Runs of ordered values as "1–13", and single values.
    omitted_count: The number of values that the pieces leave out.
    """

    name: str
    pieces: tuple[str, ...]
    omitted_count: int = 0

    @property
    def items(self) -> list[str]:
        """The pieces, and the number of further values as the last one."""
        return [*self.pieces, *([f"and {self.omitted_count:,} more"] if self.omitted_count else [])]

    @property
    def text(self) -> str:
        """The name and the values in English: "age 1–13, 15–85", with "and 5 more" at the end of a long list."""
        return f"{self.name} {', '.join(self.items)}"


def list_values(name: str, attribute: Attribute, cells: Iterable[int], max_pieces: int = MAX_PIECES) -> ValueList:
    """Return some values of an attribute in few words.

    Args:
        name: The name of the attribute.
        attribute: The attribute of the values.
        cells: Their cells, each once.
        max_pieces: The number of pieces to print of the declared values; one more is printed if it is the last. The
            cells for missing values are all printed.
    """
    cells, values = sorted(cells), attribute.cell_names
    own_cells = [i for i in cells if i < attribute.own_size]
    runs = list(_runs(own_cells)) if attribute.ordered else [(i, i) for i in own_cells]
    # a last piece takes no more room than the statement that one value is left out
    printed = runs if len(runs) <= max_pieces + 1 else runs[:max_pieces]
    texts = (_run_text(attribute, values, i, j) for i, j in printed)
    missing = (str(values[i]) for i in cells[len(own_cells) :])
    return ValueList(name, (*texts, *missing), len(own_cells) - sum(j - i + 1 for i, j in printed))


def _runs(cells: list[int]) -> Iterator[tuple[int, int]]:
    """Yield the first and the last cell of each run of consecutive cells; the cells are in order."""
    # within a run, a cell and its position in the list grow by 1 together
    for _, run in groupby(enumerate(cells), key=lambda pair: pair[1] - pair[0]):
        places = [i for _, i in run]
        yield places[0], places[-1]


def _run_text(attribute: Attribute, values: tuple[str | int, ...], start: int, last: int) -> str:
    """Return the text of consecutive values from the cell `start` to the cell `last`; bins are joined into one."""
    if start == last:
        return str(values[start])
    if isinstance(attribute, Binned):
        return _bin_text(attribute, start, last)
    ends = f"{values[start]}", f"{values[last]}"
    return (" – " if ends[0].startswith("-") else "–").join(ends)  # -3 – -1, and not -3–-1


def _bin_text(attribute: Binned, start: int, last: int) -> str:
    """Return the text of consecutive bins, as one bin."""
    # bin i is from cut i − 1 up to cut i; the first and the last bin lack one of the two
    ends = attribute.cuts[max(start - 1, 0) : start] + attribute.cuts[last : last + 1]
    if not ends:
        return "all"
    return str(Binned(ends).own_values[1 if start > 0 else 0])


def uncounted(table: Table, domain: Domain) -> tuple[ValueList, ...]:
    """Return the values that no number of a table counts, by attribute; for a matrix, the combinations of values.

    Attributes without such values have no entry.

    Args:
        table: The table of the numbers; for a pattern of tables, its template.
        domain: The domain of the records.

    **Guarantees**
        * A record is counted, or its amount added up, if and only if none of its values is listed or omitted. With a
          matrix of several attributes, it is counted if and only if its combination of values is neither.
    """
    if table.matrix is None:
        return tuple(list_values(a, domain[a], cells) for a, cells in table.left_out(domain).items())
    zero = np.flatnonzero(~np.asarray(table.matrix.matrix).any(axis=0)).tolist()
    # the cells of a single attribute are its values, and need no combinations
    if not zero or len(domain) == 1:
        return tuple(list_values(a, domain[a], zero) for a in domain if zero)
    printed = zero if len(zero) <= MAX_PIECES + 1 else zero[:MAX_PIECES]
    places = zip(*np.unravel_index(printed, domain.shape), strict=True)
    pieces = (" × ".join(str(x.values[i]) for x, i in zip(domain.values(), cell, strict=True)) for cell in places)
    return (ValueList(" × ".join(domain), tuple(pieces), len(zero) - len(printed)),)


def uncounted_by_question(query: FiniteQuery, domain: Domain) -> tuple[tuple[ValueList, ...], ...]:
    """Return, for each condition of a question, the values that do not meet it, by attribute; empty if all values do.

    Args:
        query: The question with finitely many answers.
        domain: The domain of the records.
    """

    def others(name: str, values: Selection) -> ValueList:
        # By cell and not by value: a condition can name values in several ways, and cells are what is counted.
        matching_cells = set(values.cells(domain[name]))
        return list_values(name, domain[name], (i for i in range(domain[name].size) if i not in matching_cells))

    lists = (tuple(others(a, values) for a, values in condition) for condition in query.where)
    return tuple(tuple(x for x in condition_lists if x.items) for condition_lists in lists)
