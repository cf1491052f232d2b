"""Define the base of designs of tables: integer queries of counts, with noise on each answer. Trust kernel.

Answers come by group. Each group is a sequence of runs, and all answers of a run have noise of one scale. Each design
defines its groups and their queries (`sectors`, `products`, `trees`, `margins`). The price of Gaussian noise is ρ =
Δ²/2 for all of them. Δ² is the largest sum of squared changes of the answers, each over its σ², by one protected unit.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from fractions import Fraction
from typing import Any, Self, cast

import numpy as np
from numpy.typing import NDArray

from fitnoise.errors import PlanError
from fitnoise.kernel import privacy
from fitnoise.kernel.arrays import Exact, Floats
from fitnoise.kernel.designs._base import NUMBERS_PER_BATCH, Answers, CellStructure, Design, NoiseSource, other_domain
from fitnoise.kernel.losses import Loss
from fitnoise.kernel.units import Adjacency, Neighbours

MAX_SCALE = 2.0**55
"""The largest scale of the exact sampler: above it, a draw could exceed 64 bits."""

EXACT_SCALES = 64
"""The largest number of different noise scales with exact fractions as prices.

The denominators of more scales would multiply. Then every 1/σ² is rounded up to a multiple of a small power of two.
"""

_GUARD = 96
"""The number of bits kept of the smallest 1/σ² when it is rounded up."""


class LinearDesign(Design):
    """Integer queries of counted tables, with independent noise on every answer.

    Attributes:
        structure: The attributes of the tables, split into those with interchangeable values and the others.
    """

    structure: CellStructure

    def attributes(self) -> tuple[str, ...]:
        """Return the names of all attributes of the tables, also of those on which no query depends."""
        return tuple(name for name, _ in (*self.structure.exchangeable, *self.structure.structured))

    @property
    @abc.abstractmethod
    def runs(self) -> Sequence[tuple[Floats, NDArray[np.int64]]]:
        """The scales of the noise by group, each with the number of consecutive answers that have it."""

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of values n_a of every exchangeable attribute."""
        return self.structure.sizes

    @property
    def cells(self) -> int:
        """The number n_o of joint cells of structured attributes."""
        return self.structure.size

    def without_cache(self, adjacency: Adjacency) -> Self:
        """Return these integers without cached results: also the measured parts, in tuples, are made again."""
        del adjacency
        parts = ((f.name, getattr(self, f.name)) for f in fields(cast(Any, self)))
        # Made again, they check and copy their arrays.
        copies = {name: tuple(map(replace, x)) for name, x in parts if type(x) is tuple and all(map(is_dataclass, x))}
        return cast(Self, replace(cast(Any, self), **copies))

    @property
    def lengths(self) -> tuple[int, ...]:
        """The number of noisy answers of each group."""
        return tuple(int(counts.sum()) for _, counts in self.runs)

    @property
    def scales(self) -> Floats:
        """The scale of every run of answers, by group."""
        return np.concatenate([scales for scales, _ in self.runs])

    @property
    def portions(self) -> NDArray[np.int64]:
        """The number of consecutive noisy answers of each scale."""
        return np.concatenate([counts for _, counts in self.runs])

    def check_totals(self, adjacency: Adjacency) -> None:
        """Raise PlanError if the answers show a number of records that the adjacency does not protect.

        Let neighbours have equal numbers of records. To replace a record costs at most four times the ρ of a record
        that is added or removed. The converse must hold, too. So the answers give the number of records with a variance
        of at least 1/(8ρ), for the ρ of the design. *Proof.* Let an unbiased θ give the number of records. One more
        record moves θ by 1. So its variance is at least 1/(2ρ'), with ρ' the cost of a record that is added or removed.
        ∎
        """
        super().check_totals(adjacency)
        if adjacency.fixes_size and self.loss(Adjacency()).rho > 4 * self.loss(adjacency).rho:
            raise PlanError(
                "number-of-records-measured",
                "The plan measures the number of records with almost no noise.",
                "Its neighbours replace a record, so its price does not protect that number.",
                "Use the plan as fitnoise wrote it, or plan again.",
                "Nothing was read and nothing was charged.",
                place="neighbours",
            )

    def check(self, sizes: Mapping[str, int], steps: Mapping[str, tuple[int, ...]]) -> None:
        """Raise PlanError unless the design fits a domain whose attributes have these numbers of values."""
        axes, amount_steps = (*self.structure.exchangeable, *self.structure.structured), dict(self.structure.steps)
        if any(sizes.get(name) != n or steps.get(name) != amount_steps.get(name) for name, n in axes):
            raise other_domain("strategy")


class GaussianDesign(LinearDesign):
    """Discrete Gaussian noise N_Z(0, σ²) on every answer."""

    @abc.abstractmethod
    def profile(self) -> tuple[Fraction, ...]:
        """Return for each structured cell the squared cost, in units of the noise, of the costliest record in it."""

    @abc.abstractmethod
    def cost_squared(self, neighbours: Neighbours) -> Fraction:
        """Return Δ² for neighbours that differ in one record: exact, or an upper bound."""

    @property
    @abc.abstractmethod
    def group_costs(self) -> tuple[Fraction, ...]:
        """Bounds on the squared cost of the queries of each group for one record that is added or removed."""

    @abc.abstractmethod
    def ledger_rows(self) -> list[tuple[int, list[int]]]:
        """Return for each group the number of its sectors, sets or classes, and the positions of their attributes."""

    def unit_cost(self, adjacency: Adjacency) -> Fraction:
        """Return Δ² for one protected unit of up to g records.

        A change of the unit is a sum of at most g steps of one record each (:class:`Adjacency`). The square root of the
        squared distance is a seminorm. Hence Δ² is g² times the largest single step.
        """
        return max(self.cost_squared(step) for step in adjacency.step_relations) * adjacency.records**2

    def unit_profile(self, adjacency: Adjacency) -> tuple[Fraction, ...]:
        """Return the squared cost of the records of one unit for each cell of `profile`: g² times that of one record.

        This holds where neighbours add or remove a record. Added, or removed, records of one unit cost at most the mean
        of these numbers (`sectors`).
        """
        return tuple(adjacency.records**2 * x for x in self.profile())

    def loss(self, adjacency: Adjacency) -> Loss:
        """Return ρ = Δ²/2, by cell where neighbours add or remove a record."""
        # The largest 1/σ² decides whether discrete noise may claim the curve of continuous noise (`smoothed_cost`).
        finest = max((1 / Fraction(float(x.min())) ** 2 for x, _ in self.runs if len(x)), default=Fraction(0))
        if not adjacency.by_cell:
            return Loss.concentrated(privacy.rho(self.unit_cost(adjacency)), finest)
        return Loss.of_cells(self.structure.structured, [privacy.rho(x) for x in self.unit_profile(adjacency)], finest)

    def draw(self, exact: Answers, noise: NoiseSource) -> Answers:
        """Return every answer plus one independent draw of N_Z(0, σ²), in the ring of the values (never saturating)."""
        for values, (scales, counts) in zip(exact, self.runs, strict=True):
            starts, start = np.concatenate([[0], np.cumsum(counts)]), 0
            while start < len(scales):
                # A block holds at most NUMBERS_PER_BATCH answers, or one run: memory stays bounded for large tables.
                stop = max(start + 1, int(np.searchsorted(starts, starts[start] + NUMBERS_PER_BATCH, side="right")) - 1)
                values[starts[start] : starts[stop]] += noise.discrete_gaussians(scales[start:stop], counts[start:stop])
                start = stop
        return exact

    def ledger_detail(self, adjacency: Adjacency) -> dict[str, list[Any]]:
        """Return the entry of a ledger.

        For each group, it has the number and the attributes of `ledger_rows`, and the cost of `group_costs`.
        """
        del adjacency
        names = self.structure.names
        return {
            "sectors": [
                {"count": count, "of": [names[a] for a in attributes], "cost_squared": str(cost)}
                for (count, attributes), cost in zip(self.ledger_rows(), self.group_costs, strict=True)
            ]
        }


def axis_rows(n: int) -> int:
    """Return the number of rows of the centring matrix of an axis of n values."""
    return 1 if n == 2 else n


def centre_dot(n: int, *, equal: bool) -> int:
    """Return the product of two columns of the centring matrix of an axis: (nI − J)² = n² I − n J.

    The row (1, −1) of two values has the products ±1.

    Args:
        n: The number of values.
        equal: True for a column and itself, and False for two columns.
    """
    return (n * n * equal - n) // (2 if n == 2 else 1)


def centre(counts: Exact, axis: int) -> Exact:
    """Apply H along one axis of n values: nI − J, or for n = 2 the row (1, −1), which leaves one value.

    The result stays in the ring of the input: Python integers, or int64 modulo 2⁶⁴.
    """
    n = counts.shape[axis]
    if n == 2:
        one, other = np.split(counts, 2, axis=axis)
        return np.asarray(one - other)
    return np.asarray(n * counts - counts.sum(axis=axis, keepdims=True, dtype=counts.dtype))


def exact_precisions(scales: Sequence[Floats]) -> tuple[int, list[Exact]]:
    """Return a unit u, and for each array of scales the array of all u/σ² as Python integers.

    Each u/σ² is exact for up to EXACT_SCALES different scales, and rounded up for more.
    """
    distinct = [np.unique(x, return_inverse=True) for x in scales]
    ratios = {x: x.as_integer_ratio() for x in np.concatenate([x for x, _ in distinct]).tolist()}
    if len(ratios) > EXACT_SCALES:
        # The largest scale is below 2^e, so its u/σ² keeps at least `_GUARD` bits, and all others keep more.
        unit = 1 << max(0, 2 * math.frexp(max(ratios))[1] + _GUARD)
    else:
        unit = math.lcm(*(n**2 for n, _ in ratios.values()))
    # Rounded up, never down: a smaller 1/σ² would understate the cost.
    exact = {x: -(-unit * d * d // (n * n)) for x, (n, d) in ratios.items()}
    out = [np.array([exact[x] for x in values.tolist()], dtype=object)[which.ravel()] for values, which in distinct]
    return unit, out
