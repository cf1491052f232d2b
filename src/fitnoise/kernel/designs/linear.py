"""What designs of tables share: integer queries of counts, each answer with noise of its own. Part of the trust kernel.

Answers come by group. In turn so many of them have noise of one scale: what a group is made of, and what it asks, is
each design's own (`sectors`, `products`, `trees`, `margins`); of Gaussian noise the price is ρ = Δ²/2, whatever it is.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fitnoise.kernel import privacy
from fitnoise.kernel.arrays import Exact, Floats
from fitnoise.kernel.designs._base import HELD as DRAWN
from fitnoise.kernel.designs._base import Answers, Cells, Design, Door
from fitnoise.kernel.designs.parts import check_sizes
from fitnoise.kernel.losses import Loss
from fitnoise.kernel.units import Adjacency, Neighbours

MAX_SCALE = 2.0**55
"""Of the exact sampler: beyond it, 64 bits could be reached."""

EXACT_SCALES = 64
"""Different noise scales up to which prices are exact fractions. The denominators of more of them would multiply up:
then every 1/σ² is rounded up to a multiple of a small power of two."""

_GUARD = 96
"""Bits kept of the smallest 1/σ² when it is rounded up."""


class LinearDesign(Design):
    """Integer queries of counted tables, with independent noise on every answer. over: the attributes."""

    over: Cells

    @property
    @abc.abstractmethod
    def runs(self) -> Sequence[tuple[Floats, NDArray[np.int64]]]:
        """By group the scales of its noise, and how many of its answers in turn have each."""

    @property
    def sizes(self) -> tuple[int, ...]:
        """n_a of every exchangeable attribute."""
        return self.over.sizes

    @property
    def lengths(self) -> tuple[int, ...]:
        """How many noisy answers each group has."""
        return tuple(int(counts.sum()) for _, counts in self.runs)

    @property
    def answers(self) -> int:
        """Number of noisy numbers."""
        return sum(self.lengths)

    @property
    def scales(self) -> Floats:
        """The scale of every run of answers, by group."""
        return np.concatenate([scales for scales, _ in self.runs])

    @property
    def portions(self) -> NDArray[np.int64]:
        """How many noisy answers in turn have each of the scales."""
        return np.concatenate([counts for _, counts in self.runs])

    def check(self, sizes: Mapping[str, int], steps: Mapping[str, tuple[int, ...]]) -> None:
        """Raise PlanError unless it is for a domain whose attributes have these numbers of values."""
        check_sizes(self.over, sizes, steps)


class GaussianDesign(LinearDesign):
    """Discrete Gaussian noise N_Z(0, σ²) on every answer."""

    @abc.abstractmethod
    def profile(self) -> tuple[Fraction, ...]:
        """Squared cost of one record, in units of the noise: of each structured cell, or of the dearest record."""

    @abc.abstractmethod
    def cost_squared(self, neighbours: Neighbours) -> Fraction:
        """Δ² for neighbours that differ in one record: exact, or a bound on it."""

    @property
    @abc.abstractmethod
    def group_costs(self) -> tuple[Fraction, ...]:
        """What the queries of each group cost one record that comes or goes, at most."""

    @abc.abstractmethod
    def told(self) -> list[tuple[int, list[int]]]:
        """Of each group how many queries of one scale it has, and the positions of all attributes that these show."""

    def unit_cost(self, of: Adjacency) -> Fraction:
        """Δ² for one protected unit of up to g records.

        A change of the unit is a sum of at most g steps of one record each (:class:`Adjacency`), and the square root of
        the squared distance is a seminorm: hence g² times the largest single step.
        """
        return max(self.cost_squared(step) for step in of.steps) * of.records**2

    def unit_profile(self, of: Adjacency) -> tuple[Fraction, ...]:
        """Where neighbours add or remove a record, for each cell of `profile` what records of one unit cost: g² of it.

        Records of one unit that come, or that go, cost at most the mean of theirs (`sectors`).
        """
        return tuple(of.records**2 * x for x in self.profile())

    def loss(self, of: Adjacency) -> Loss:
        """ρ = Δ²/2, by cell where neighbours add or remove a record."""
        finest = max((1 / Fraction(float(x.min())) ** 2 for x, _ in self.runs if len(x)), default=Fraction(0))
        if not of.by_cell:
            return Loss.concentrated(privacy.rho(self.unit_cost(of)), finest)
        return Loss.of_cells(self.over.structured, [privacy.rho(x) for x in self.unit_profile(of)], finest)

    def draw(self, exact: Answers, door: Door) -> Answers:
        """Every answer plus one independent draw of N_Z(0, σ²), in the ring of the values (never saturating)."""
        for values, (scales, counts) in zip(exact, self.runs, strict=True):
            _add_noise(values, scales, counts, door)
        return exact

    def detail(self, of: Adjacency) -> dict[str, list[Any]]:
        """How many queries of which attributes each group has, and what they cost one record that comes or goes."""
        del of
        names = self.over.names
        return {
            "sectors": [
                {"count": count, "of": [names[a] for a in shown], "cost_squared": str(cost)}
                for (count, shown), cost in zip(self.told(), self.group_costs, strict=True)
            ]
        }


def axis_rows(n: int) -> int:
    """Rows of the centring matrix of an axis of n values."""
    return 1 if n == 2 else n


def centre(counts: Exact, axis: int) -> Exact:
    """Apply H along one axis: nI − J, or the row (1, −1) for n = 2. Stays in the ring of the input."""
    n = counts.shape[axis]
    if n == 2:
        first, second = np.split(counts, 2, axis=axis)
        return np.asarray(first - second)
    return np.asarray(n * counts - counts.sum(axis=axis, keepdims=True, dtype=counts.dtype))


def exact_precisions(scales: Sequence[Floats]) -> tuple[int, list[Exact]]:
    """A unit u, and u/σ² of every scale as Python integers, likewise: exact, or rounded up where scales are many."""
    distinct = [np.unique(x, return_inverse=True) for x in scales]
    ratios = {x: x.as_integer_ratio() for x in np.concatenate([x for x, _ in distinct]).tolist()}
    if len(ratios) > EXACT_SCALES:
        unit = 1 << max(0, 2 * math.frexp(max(ratios))[1] + _GUARD)
    else:
        unit = math.lcm(*(n**2 for n, _ in ratios.values()))
    whole = {x: -(-unit * d * d // (n * n)) for x, (n, d) in ratios.items()}  # rounded up, or exact
    out = [np.array([whole[x] for x in values.tolist()], dtype=object)[which.ravel()] for values, which in distinct]
    return unit, out


def _add_noise(values: Exact, scales: Floats, counts: NDArray[np.int64], door: Door) -> None:
    """Add one independent draw of N_Z(0, σ²) to every value, so many of each scale, some at a time."""
    starts, first = np.concatenate([[0], np.cumsum(counts)]), 0
    while first < len(scales):
        last = max(first + 1, int(np.searchsorted(starts, starts[first] + DRAWN, side="right")) - 1)
        values[starts[first] : starts[last]] += door.discrete_gaussians(scales[first:last], counts[first:last])
        first = last
