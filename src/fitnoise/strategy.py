"""The integer strategy: what is measured, and its exact price. Part of the trust kernel.

Sector S measures (⊗_{a∈S} H_a ⊗_{a∉S} 1ᵀ) ⊗ (A_S B_S) x with independent discrete Gaussian noise of scale σ_S on every
entry. H_a = n_a I − J (for n_a = 2 the single row (1, −1)), A_S and B_S are integers, σ_S is a dyadic rational, so the
answers before noise are integers and the price is a rational number computed here, from these integers alone:

    prof(z, o) = Σ_S [Π_{a∈S} h_a] ‖(A_S B_S)_{·,o}‖² / σ_S²,    h_a = n_a (n_a − 1), or 1 for n_a = 2,

the same for every combination z of exchangeable values. Nothing an optimiser says enters.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from fitnoise.errors import PlanError, SingularStrategy
from fitnoise.privacy import Neighbours, PrivacyUnit

Integers = NDArray[Any]
"""int64 where a public bound shows that this is enough, Python integers (dtype object) otherwise."""

MAX_SCALE = 2.0**55
"""Of the exact sampler: beyond it, 64 bits could be reached."""

SAFE = 2**62
"""Below this an int64 can be negated, added once and compared without overflow."""

MAX_REPLACE_PATTERNS = 2**14
"""Agreement patterns of two records examined one by one for replace-one neighbours."""


def largest_entry(a: Integers) -> int:
    """Max |a_ij|, exact for every integer type (numpy's own absolute value of the least int64 is negative)."""
    return max(int(a.max()), -int(a.min()))


def exact_matmul(a: Integers, b: Integers) -> Integers:
    """A b over the integers, int64 where no entry and no partial sum can reach 2⁶², Python integers otherwise.

    Below 2⁵⁰ every product and every partial sum, in whatever order, is a whole number that a double holds: then
    doubles are used, which are many times faster.
    """
    if a.size == 0 or b.size == 0:
        return np.zeros((a.shape[0], b.shape[1]), dtype=np.int64)
    largest = max(1, largest_entry(a)) * max(1, largest_entry(b)) * a.shape[1]
    if largest < 2**50:
        return np.asarray(np.rint(a.astype(np.float64) @ b.astype(np.float64)).astype(np.int64))
    if largest < SAFE:
        return np.asarray(a.astype(np.int64) @ b.astype(np.int64))
    return np.asarray(a.astype(object) @ b.astype(object))


@final
@dataclass(frozen=True, eq=False)
class SectorStrategy:
    """What is measured in one sector.

    attributes: positions among the exchangeable attributes. sizes: n_a of each (≥ 2).
    mixing: A_S, integers, (k, k), invertible. basis: B_S, integers, (k, n_o). scale: σ_S, a float (hence dyadic) > 0.
    """

    attributes: tuple[int, ...]
    sizes: tuple[int, ...]
    mixing: Integers
    basis: NDArray[np.int64]
    scale: float

    def __post_init__(self) -> None:
        k = len(self.basis)
        if k == 0 or self.basis.ndim != 2 or self.basis.dtype != np.int64:
            raise PlanError("a sector's basis must be a matrix of whole numbers of at most 62 bits.")
        whole = self.mixing.dtype == np.int64 or (
            self.mixing.dtype == object and all(type(x) is int for x in self.mixing.flat)
        )
        if self.mixing.shape != (k, k) or not whole:
            raise PlanError("a sector's mixing matrix must be square integers as large as its basis.")
        for name in ("mixing", "basis"):
            entries = getattr(self, name).copy()
            if entries.dtype == np.int64 and largest_entry(entries) >= SAFE:
                raise PlanError("64-bit entries of a strategy must stay below 2^62; larger ones are Python integers.")
            entries.setflags(write=False)  # a price once computed stays the price of these integers
            object.__setattr__(self, name, entries)
        if not (math.isfinite(self.scale) and 0 < self.scale <= MAX_SCALE):
            raise PlanError("a sector's noise scale must be a positive number that the exact sampler can draw.")
        if any(n < 2 for n in self.sizes) or len(self.sizes) != len(self.attributes):
            raise PlanError("a sector's attributes must each have two values or more.")

    @cached_property
    def rows(self) -> Integers:
        """A_S B_S, exact, shape (k, n_o)."""
        return exact_matmul(self.mixing, self.basis)

    @cached_property
    def column_squares(self) -> list[int]:
        """‖(A_S B_S)_{·,o}‖² for each structured cell o, exact."""
        r = self.rows
        largest = largest_entry(r) ** 2 * len(r)
        exact = r if largest < SAFE and r.dtype != object else r.astype(object)
        return [int(x) for x in (exact * exact).sum(axis=0)]

    @cached_property
    def inverse(self) -> NDArray[np.float64]:
        """A_S⁻¹ in floating point, (k, k); SingularStrategy when doubles cannot hold A_S or cannot invert it."""
        a = self.mixing.astype(np.float64)
        try:
            inverse = np.asarray(np.linalg.inv(a))
        except np.linalg.LinAlgError:
            inverse = np.full_like(a, math.nan)
        held = all(int(x) == int(y) for x, y in zip(a.flat, self.mixing.flat, strict=True))
        if not held or not np.isfinite(inverse).all() or np.abs(a @ inverse - np.eye(len(a))).max() > 1e-7:
            raise SingularStrategy("a sector's integer strategy is singular: its answers could not be rebuilt.")
        return inverse

    @property
    def answers(self) -> int:
        """Number of noisy numbers: k times Π n_a (1 for n_a = 2)."""
        return len(self.basis) * math.prod(axis_rows(n) for n in self.sizes)

    def weight(self, agreeing: Iterable[int]) -> int:
        """Σ over the centred rows of h_z h_z' for two records that agree on exactly these exchangeable attributes."""
        same = set(agreeing)
        out = 1
        for a, n in zip(self.attributes, self.sizes, strict=True):
            if n == 2:
                out *= 1 if a in same else -1
            else:
                out *= n * (n - 1) if a in same else -n
        return out

    def magnitude(self, records: int) -> int:
        """A bound on every entry of the transformed counts of at most `records` records, and on partial sums."""
        return records * max(1, largest_entry(self.rows)) * math.prod(max(n - 1, 1) for n in self.sizes)


def axis_rows(n: int) -> int:
    """Rows of the centring matrix of an axis of n values."""
    return 1 if n == 2 else n


def axis_gain(n: int) -> int:
    """G with HᵀH = g (I − J/n)."""
    return 2 if n == 2 else n * n


def centre(counts: Integers, axis: int) -> Integers:
    """Apply H along one axis: nI − J, or the row (1, −1) for n = 2. Stays in the ring of the input."""
    n = counts.shape[axis]
    if n == 2:
        first, second = np.split(counts, 2, axis=axis)
        return np.asarray(first - second)
    return np.asarray(n * counts - counts.sum(axis=axis, keepdims=True, dtype=counts.dtype))


def uncentre(answers: NDArray[np.float64], axis: int, n: int) -> NDArray[np.float64]:
    """Apply H⁺ = Hᵀ/g along one axis."""
    if n == 2:
        return np.concatenate([answers, -answers], axis=axis) / 2
    return np.asarray((answers - answers.mean(axis=axis, keepdims=True)) / n)


@final
@dataclass(frozen=True, eq=False)
class Strategy:
    """All sectors of a plan.

    sizes: n_a of every exchangeable attribute. cells: n_o. sectors: one strategy per sector, none twice.

    **Guarantees**
        * `profile()` equals the squared column norms of the dense integer strategy divided by σ², exactly;
        * `cost_squared` is the largest squared distance, in units of the noise, that one neighbouring pair
          can move the measured vector, exactly (an upper bound where it says so).
    """

    sizes: tuple[int, ...]
    cells: int
    sectors: tuple[SectorStrategy, ...]

    def __post_init__(self) -> None:
        if len({s.attributes for s in self.sectors}) != len(self.sectors):
            raise PlanError("a strategy measures each sector once; a sector appears twice.")
        for s in self.sectors:
            if s.basis.shape[1] != self.cells or tuple(self.sizes[a] for a in s.attributes) != s.sizes:
                raise PlanError("a sector of the strategy does not fit its domain.")

    @cached_property
    def _profile(self) -> tuple[Fraction, ...]:
        everything = range(len(self.sizes))
        totals: dict[float, list[int]] = defaultdict(lambda: [0] * self.cells)
        for s in self.sectors:
            w = s.weight(everything)
            acc = totals[s.scale]
            for o, square in enumerate(s.column_squares):
                acc[o] += w * square
        parts = [(1 / Fraction(scale) ** 2, acc) for scale, acc in totals.items()]
        return tuple(sum((f * acc[o] for f, acc in parts), Fraction(0)) for o in range(self.cells))

    def profile(self) -> tuple[Fraction, ...]:
        """Exact squared cost of one record in each structured cell, the same for all exchangeable values."""
        return self._profile

    def sector_costs(self) -> tuple[Fraction, ...]:
        """Exact squared cost of each sector on its own: its largest column over σ²."""
        everything = range(len(self.sizes))
        return tuple(
            Fraction(s.weight(everything) * max(s.column_squares)) / Fraction(s.scale) ** 2 for s in self.sectors
        )

    def cost_squared(self, neighbours: Neighbours) -> Fraction:
        """Δ² for neighbours that differ in one record, exact.

        Add or remove one: max_o prof(o). Replace one: the maximum over pairs of cells of prof(o) + prof(o')
        − 2 Σ_S weight_S(T) ⟨(A B)_o, (A B)_o'⟩/σ_S², T the exchangeable attributes on which the two agree; with more
        than 14 exchangeable attributes of two values or more, the upper bound in which T is the worst in each sector.
        """
        largest = max(self.profile())
        if neighbours is Neighbours.ADD_OR_REMOVE_ONE:
            return largest
        return self._replace_one()

    def unit_cost(self, unit: PrivacyUnit, *, drops: bool) -> Fraction:
        """Δ² for one protected unit of up to g records: what is charged.

        A change of the unit is a sum of at most g terms, each of which moves one record: by a neighbour step of the
        relation, or, for replace-one, also by ±e_i where a record can come or go: because records outside the domain
        are dropped (`drops`), or because a unit may have fewer than g records. Hence g² times the largest single step.
        """
        step = self.cost_squared(unit.neighbours)
        if unit.neighbours is Neighbours.REPLACE_ONE and (drops or unit.max_records > 1):
            step = max(step, self.cost_squared(Neighbours.ADD_OR_REMOVE_ONE))
        return step * unit.cost_factor()

    def _replace_one(self) -> Fraction:
        factors = [1 / Fraction(s.scale) ** 2 for s in self.sectors]
        unit = math.lcm(*(f.denominator for f in factors))
        grams = [
            exact_matmul(s.rows.T, s.rows).astype(object) * int(f * unit)
            for s, f in zip(self.sectors, factors, strict=True)
        ]
        own = np.array([int(x * unit) for x in self.profile()], dtype=object)
        base = own[:, None] + own[None, :]
        best = 0
        if 2 ** sum(n > 1 for n in self.sizes) > MAX_REPLACE_PATTERNS:
            # weight_S(T) lies between that of full agreement and that of disagreement on one attribute
            worst = np.zeros((self.cells, self.cells), dtype=object)
            for s, g in zip(self.sectors, grams, strict=True):
                weights = [s.weight(s.attributes)]
                weights += [s.weight(b for b in s.attributes if b != a) for a in s.attributes]
                worst = worst + np.maximum(-max(weights) * g, -min(weights) * g)
            return Fraction(max(int((base + 2 * worst).max()), 0), unit)
        free = [a for a, n in enumerate(self.sizes) if n > 1]
        always = [a for a, n in enumerate(self.sizes) if n == 1]
        for k in range(len(free) + 1):
            for same in itertools.combinations(free, k):
                agreeing = [*same, *always]
                cross = sum(
                    (s.weight(agreeing) * g for s, g in zip(self.sectors, grams, strict=True)),
                    start=np.zeros((self.cells, self.cells), dtype=object),
                )
                best = max(best, int((base - 2 * cross).max()))  # the same cell twice gives 0
        return Fraction(best, unit)


def whitener(sector: SectorStrategy) -> NDArray[np.float64]:
    """σ_S Π g_a^(−½) A_S⁻¹, (k, k): L times it has rows whose squared norms are a sector's share of the variances."""
    gain = math.sqrt(math.prod(axis_gain(n) for n in sector.sizes))
    return np.asarray(sector.inverse * (sector.scale / gain))
