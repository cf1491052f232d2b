"""Series: an order that is drawn period by period. Part of the trust kernel.

**Purpose.** Every row of a strategy belongs to the last period whose records it touches. So the rows of period t are
known when its records are, for any later records. They are drawn then, with noise of their own, and all rows jointly
are the strategy.

**Statement.** One charge of Δ² of all rows, the price of the complete strategy, before the first draw is enough.

**Proof.** Given the earlier releases, the rows of a period move by ‖shift‖²/σ² between neighbours. Over all periods
these add up to at most Δ² for every unit, also if records of the unit depend on earlier releases. This is a filter:
Feldman and Zrnic 2021 for ρ, Smith and Thakurta 2022 for μ². So nothing is charged later. A period that is drawn once
more is a further release of its rows, and is charged as one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final, Self, final

import numpy as np

from fitnoise.errors import PlanError
from fitnoise.kernel.designs.query_blocks import INT64_SAFE_LIMIT, largest_entry
from fitnoise.kernel.designs.sectors import Strategy, StrategyGroup
from fitnoise.kernel.designs.witness import Claim
from fitnoise.kernel.order import Order
from fitnoise.kernel.units import Neighbours

_NOTHING: Final = "Nothing was drawn and nothing was charged."


@final
@dataclass(frozen=True, eq=False)
class Series:
    """An order that is measured period by period.

    order: The complete order, which is charged.
    attribute: The attribute whose cells are the periods, in order of time.
    labels: The label of each period, for messages alone.

    Raises:
        PlanError: The order is not one strategy of sectors in which the attribute is structured.
        PlanError: Neighbours do not add or remove a unit.
        PlanError: The order names other orders on its records, is declared free, or declares a number of records.
        PlanError: The attribute has levels.
        PlanError: The order draws nothing in some period.
        PlanError: An id bounds the counted records of a unit, and not in each period on its own.
        PlanError: The sum of the counts of all periods would not be exact (`Order.max_records`).

    **Guarantees**
        * The rows of all periods are those of the strategy, each once.
        * The rows of a period touch no later period.
    """

    order: Order
    attribute: str
    labels: tuple[str, ...] = field(default=(), repr=False, compare=False)

    def __post_init__(self) -> None:
        designs, unit = self.order.designs, self.order.unit
        (design,) = designs if len(designs) == 1 else (None,)
        if not isinstance(design, Strategy) or self.attribute not in dict(design.structure.structured):
            raise PlanError(
                "series-needs-period-tables",
                f"The plan does not show the cells of {self.attribute!r} one by one with Gaussian noise.",
                "A series needs one plan for tables with Gaussian noise that shows each cell of its period.",
                "Choose another attribute as the period, or plan other tables.",
                _NOTHING,
                place=self.attribute,
            )
        order = self.order
        if order.composed_with or order.free or order.sizes or unit.neighbours is not Neighbours.ADD_OR_REMOVE_ONE:
            raise PlanError(
                "series-plan-unsuitable",
                "The plan has replace-one neighbours, is composed with other plans, or concerns a number of records.",
                "A series needs add-or-remove-one neighbours, no composed plan and no number of records.",
                "Change the specification, and plan again.",
                _NOTHING,
            )
        if [x for x in order.domain.sizes if order.domain.attribute_of(x) == self.attribute] != [self.attribute]:
            raise PlanError(
                "series-period-has-levels",
                f"The attribute {self.attribute!r} has levels.",
                "The periods of a series must be an attribute without levels.",
                "Choose another attribute as the period.",
                _NOTHING,
                place=self.attribute,
            )
        if unit.bound is not None and not self._by_period:
            raise PlanError(
                "series-bound-across-periods",
                f"The bound on the records of a {unit.name} does not hold in each period by itself.",
                "Counting with an id enforces the bound in each period, and keeps no record of earlier periods.",
                f"Bound the records by once_per or per_value of {self.attribute!r} and by max_records for all "
                "periods, or remove the id.",
                _NOTHING,
                place="privacy.id",
            )
        if not all(x.groups for x in self.designs):
            raise PlanError(
                "series-period-empty",
                "The plan draws nothing in one of the periods.",
                "A series must draw something in each period.",
                "Plan tables that show every period.",
                _NOTHING,
                place=self.attribute,
            )
        _ = order.max_records(self.periods)  # the counts of all periods are added up

    @property
    def _by_period(self) -> bool:
        """True if, for a unit by an id, its counted records of each period depend on its records there alone."""
        pattern, sizes = self.order.unit.pattern, self.order.domain.sizes
        limits = [n * math.prod(sizes[a] for a in names) for names, n in pattern.caps]
        # A separation or a fixed attribute relates records of different periods, which no period knows alone.
        only_caps = not pattern.fixed and not pattern.separation and all(self.attribute in a for a, _ in pattern.caps)
        # A cap with at most `max_records` records in all its cells: `max_records` then leaves out no further record.
        return only_caps and min(limits, default=math.inf) <= self.order.unit.max_records

    @property
    def strategy(self) -> Strategy:
        """The strategy with the rows of all periods."""
        (design,) = self.order.designs
        assert isinstance(design, Strategy)  # noqa: S101 - made so
        return design

    @cached_property
    def designs(self) -> tuple[Strategy, ...]:
        """The strategy of the rows that are drawn in each period, one for each period in order, sector by sector."""
        structure = self.strategy.structure
        axis = [a for a, _ in structure.structured].index(self.attribute)
        period_of = np.indices(structure.shape)[axis].ravel()
        groups_of: list[list[StrategyGroup]] = [[] for _ in range(structure.shape[axis])]
        for g in self.strategy.groups:
            for i in range(len(g)):
                rows = g.sector(i).rows
                # A row is drawn as soon as the records of the last period that it touches are known.
                last = np.where(rows != 0, period_of, 0).max(axis=1)
                for t in np.unique(last).tolist():
                    part = np.asarray(rows[last == t])
                    part = part.astype(np.int64) if largest_entry(part) < INT64_SAFE_LIMIT else part
                    # The rows A_S B_S are divided among periods, so they are the basis here, and nothing mixes them.
                    mixing = np.eye(len(part), dtype=np.int64)[None]
                    one = slice(i, i + 1)
                    groups_of[t].append(StrategyGroup(g.attributes[one], g.sizes[one], part, mixing, g.scales[one]))
        return tuple(Strategy(structure, tuple(groups)) for groups in groups_of)

    @property
    def periods(self) -> int:
        """The number of periods."""
        return len(self.designs)

    def label(self, period: int) -> str:
        """Return the label of a period, for messages alone; its number for a period without one."""
        return self.labels[period - 1] if 1 <= period <= len(self.labels) else f"number {period}"

    def without_cache(self) -> Self:
        """Return a series of equal integers, without cached results; the order is checked again."""
        return replace(self, order=self.order.without_cache())

    def redraw_order(self, period: int, claim: Claim | None = None) -> Order:
        """Return the order of the rows of one period alone, which prices another draw of them.

        Args:
            period: The number of a period of the series, from 1.
            claim: The claimed price of these rows for the records of one unit, which the order proves.

        Raises:
            PlanError: The claim is not proven.
        """
        return replace(self.order, designs=(replace(self.designs[period - 1], claim=claim),))
