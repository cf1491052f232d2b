"""The rules about impossible cells, as readers of records apply them.

**Purpose.** A rule names combinations of cells that no record can have. Each rule is a column in addition to those
of attributes. A record has its one cell, unless it has a cell in each attribute of the rule, and one of these
combinations. So what holds for values outside an attribute holds for rules, too. Such a record is left out of all
tables and reported, or the data are refused. That is before records of a person are merged or chosen.

**Trust.** The column of a record depends on no other record. It holds whether a table shows the attributes or not.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from fitnoise.kernel.codings import DROPPED, REFUSED, Codes, CodingWithMissing
from fitnoise.kernel.counting.tally import Batch, Rows
from fitnoise.kernel.domain import Domain
from fitnoise.kernel.units import DataSource


@final
@dataclass(frozen=True, eq=False)
class RuleColumn:
    """The column of a rule.

    names: The attributes and levels of the rule.
    excluded: True for the combinations of their cells that no record can have.
    action: DROPPED or REFUSED, for records with such a combination.
    """

    names: tuple[str, ...]
    excluded: NDArray[np.bool_]
    action: int

    @property
    def coding(self) -> CodingWithMissing:
        """The coding of the column, in which 0 stands for a record that the rule does not exclude."""
        return CodingWithMissing(Codes((0,)), (), self.action, self.action)

    def cells(self, cells: Mapping[str, NDArray[Any]]) -> NDArray[np.int64]:
        """Return 0 for each record that the rule does not exclude, and the action for others, shape (records,).

        cells: The cells by attribute or level, below 0 for a record without one.
        """
        columns = np.broadcast_arrays(*(cells[a] for a in self.names))
        inside = np.logical_and.reduce([c >= 0 for c in columns])
        out = inside & self.excluded[tuple(np.where(inside, c, 0) for c in columns)]
        return np.where(out, self.action, 0).astype(np.int64)

    def sql(self, cells: Mapping[str, str], int64: str) -> str:
        """Return SQL that is 1 for a record that the rule excludes, and 0 for others.

        cells: SQL for the cells by attribute or level, from 1; 0 for a record without one.
        int64: The template of an integer of 64 bits.
        """
        index, shape = int64.format(x="0"), [n + 1 for n in self.excluded.shape]
        for a, size in zip(self.names, shape, strict=True):
            index = f"({index}) * {size} + {int64.format(x=cells[a])}"
        places = np.flatnonzero(np.pad(self.excluded, [(1, 0)] * len(shape))).tolist()
        return f"CASE WHEN {index} IN ({', '.join(map(str, places))}) THEN 1 ELSE 0 END"


Rules = Mapping[str, RuleColumn]
"""The columns of rules, by the name of the rule."""


def rule_columns(domain: Domain, source: DataSource) -> dict[str, RuleColumn]:
    """Return the columns of all rules of a domain.

    domain: The domain with its rules.
    source: The data source, with the action for records that rules exclude.
    """
    columns = {}
    for name, rule in domain.rules.items():
        excluded = np.zeros([domain.sizes[a] for a in rule.names], dtype=np.bool_)
        excluded[tuple(np.array(rule.cells).T)] = True
        columns[name] = RuleColumn(rule.names, excluded, DROPPED if source.drops_by_rule else REFUSED)
    return columns


@final
@dataclass(frozen=True)
class RuledRows:
    """A reader that adds the columns of rules to the cells of another reader (`Rows`).

    rows: The other reader.
    rules: The rules about attributes that it reads.
    """

    rows: Rows
    rules: Rules

    def batches(self, attributes: Sequence[str]) -> Generator[Batch]:
        """Yield the records with their cells in these attributes and rules."""
        for batch in self.rows.batches([a for a in attributes if a not in self.rules]):
            columns = {name: rule.cells(batch.cells) for name, rule in self.rules.items()}
            yield replace(batch, cells={**batch.cells, **columns})
