"""Prove a claimed price of one record for products whose scales vary within sets. Part of the trust kernel.

| symbol | meaning |
|---|---|
| T | a measured set of attributes |
| f_T(i) ≥ 0 | integer cost of a record with the values i for T (:mod:`fitnoise.kernel.designs.products`) |
| C | a cluster: attributes. Each T has one cluster, its home; the home has every attribute along which f_T varies |
| λ_{C,a} | an integer for every value of each attribute a of C |
| b | the claim Σ_T f_T(i) ≤ b for every joint cell i |

**Statement.** If a check returns True, the claim holds, for any integers in the claim.

**Proof.** Let Σ_C λ_{C,a}(i) = 0 for every attribute and value, over the clusters that have the attribute. Then, for
any s ≥ 0 and every joint cell i,

    Σ_T f_T(i) ≤ 2^s Σ_T ⌈f_T(i)/2^s⌉ = 2^s Σ_C (Σ_{T with home C} ⌈f_T(i)/2^s⌉ + Σ_{a∈C} λ_{C,a}(i_a)).

Each term of the outer sum depends on the values of C alone. So it is at most its largest over the cells of C. The check
adds these maxima up and compares the sum, times 2^s, with b.

**Integers.** λ are Python integers with |λ| < 2⁶¹/(number of C). The cells of a cluster are added up in 64 bits, if
none of their sums can reach 2⁶³.

**Trust.** A check that accepts a false claim lets a plan charge less than a record costs. The limits below bound the
memory and the time that any claim takes. A claim beyond a limit is not proven.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from fitnoise.kernel.arrays import Exact
from fitnoise.kernel.designs.witness import MAX_NUMBERS, MAX_SHIFT, invalid_claim

MAX_JOINT_CELLS = 10_000_000
"""The largest number of cells of a cluster, 80 MB, unless the costs of one set are more numbers."""

MAX_LEVEL = 2**61
"""The limit of |λ| times the number of clusters; it is not reached."""

INT64_RANGE = 2**63
"""The limit of sums in 64 bits; it is not reached."""

Costs = Mapping[tuple[int, ...], Exact]
"""f_T of every set T; an axis has all values of its attribute, or length 1 if these cost the same."""


@final
@dataclass(frozen=True)
class ClusterClaim:
    """The price that a plan claims for one record, with its witness.

    Attributes:
        bound: b, at least 0, in the unit of the design.
        clusters: The positions of the attributes of every cluster, increasing.
        homes: For each measured set, in the order of the design, the index of its home.
        levels: λ, one integer for each cluster, each of its attributes and each value of the attribute.
        shift: s, at least 0.

    Raises:
        PlanError: A field has another type, the bound is below 0, or the shift is not from 0 to `MAX_SHIFT`.
    """

    bound: int
    clusters: tuple[tuple[int, ...], ...]
    homes: tuple[int, ...]
    levels: tuple[tuple[tuple[int, ...], ...], ...]
    shift: int

    def __post_init__(self) -> None:
        good = _are_integers((self.bound, self.shift), 1) and _are_integers(self.homes, 1)
        good = good and _are_integers(self.clusters, 2) and _are_integers(self.levels, 3)
        if not good or self.bound < 0 or not 0 <= self.shift <= MAX_SHIFT:
            raise invalid_claim()

    def proves(self, costs: Costs, sizes: Sequence[int]) -> bool:
        """Return True if the witness proves that no joint cell costs more than the claim.

        Args:
            costs: f_T of every measured set, in the order of the design, at least 0.
            sizes: The number of values of every attribute.
        """
        if not self._has_clusters(costs, sizes) or not self._has_homes(costs) or not self._has_levels(sizes):
            return False
        members: list[dict[tuple[int, ...], Exact]] = [{} for _ in self.clusters]
        for (axes, x), home in zip(costs.items(), self.homes, strict=True):
            members[home][axes] = x
        total = 0
        for cluster, levels, inside in zip(self.clusters, self.levels, members, strict=True):
            tops = [-(-int(x.max()) >> self.shift) for x in inside.values()]
            # No entry and no partial sum is further from 0, so no 64-bit integer wraps around.
            if sum(tops) + sum(max(map(abs, row)) for row in levels) >= INT64_RANGE:
                return False
            added = cluster_costs(inside, cluster, sizes, self.shift)
            for axis, row in enumerate(levels):
                added += np.array(row, dtype=np.int64).reshape([-1 if i == axis else 1 for i in range(added.ndim)])
            total += int(added.max())
        # The total is scaled up. To scale the claim down would round it.
        return total << self.shift <= self.bound

    def _has_clusters(self, costs: Costs, sizes: Sequence[int]) -> bool:
        """Return True if every cluster is a set of attributes of two values or more, within the limits."""
        # Arrays have at most 64 axes. No cost varies along an attribute of one value.
        several = {a for a, n in enumerate(sizes) if n > 1}
        if not all(list(c) == sorted(set(c)) and set(c) <= several for c in self.clusters):
            return False
        cells = [math.prod(sizes[a] for a in cluster) for cluster in self.clusters]
        # The costs are in memory already, in integers that take several times as much.
        numbers = [x.size for x in costs.values()]
        largest, total = max([MAX_JOINT_CELLS, *numbers]), max(MAX_NUMBERS, sum(numbers))
        return max(cells, default=0) <= largest and sum(cells) <= total

    def _has_homes(self, costs: Costs) -> bool:
        """Return True if every set has a home with all attributes along which it varies, and no cluster is empty."""
        if len(self.homes) != len(costs) or set(self.homes) != set(range(len(self.clusters))):
            return False
        pairs = zip(costs.items(), self.homes, strict=True)
        # A cluster that lacks one of them has a single cell for values of different costs.
        return all(set(varying(axes, x)) <= set(self.clusters[home]) for (axes, x), home in pairs)

    def _has_levels(self, sizes: Sequence[int]) -> bool:
        """Return True if λ has a level for every value of every cluster, in range, and λ of a value adds up to 0."""
        if len(self.levels) != len(self.clusters):
            return False
        sums = [[0] * n if any(a in cluster for cluster in self.clusters) else [] for a, n in enumerate(sizes)]
        for cluster, levels in zip(self.clusters, self.levels, strict=True):
            if [len(row) for row in levels] != [sizes[a] for a in cluster]:
                return False
            for a, row in zip(cluster, levels, strict=True):
                if any(abs(v) * len(self.clusters) >= MAX_LEVEL for v in row):
                    return False
                # Sums in 64 bits would wrap around: −2⁶³ twice would be 0.
                sums[a] = [x + v for x, v in zip(sums[a], row, strict=True)]
        return not any(map(any, sums))


def varying(axes: Sequence[int], costs: Exact) -> tuple[int, ...]:
    """Return the attributes along which the cost of a set varies."""
    return tuple(a for a, n in zip(axes, costs.shape, strict=True) if n > 1)


def cluster_costs(costs: Costs, cluster: Sequence[int], sizes: Sequence[int], shift: int) -> NDArray[np.int64]:
    """Return Σ_T ⌈f_T/2^shift⌉ over the sets T of `costs`, for all cells of a cluster, one axis an attribute.

    The cluster has all attributes along which a cost varies. The caller makes sure that the sum of the largest entries
    is below 2⁶³.
    """
    total = np.zeros([sizes[a] for a in cluster], dtype=np.int64)
    for axes, x in costs.items():
        # Rounded up, so that the sum stays an upper bound.
        rounded = np.asarray(-(-x >> shift)).astype(np.int64)
        lengths = dict(zip(axes, x.shape, strict=True))
        total += rounded.reshape([lengths.get(a, 1) for a in cluster])
    return total


def _are_integers(value: Any, depth: int) -> bool:
    """Return True for tuples in tuples, to this depth, of Python integers."""
    if depth == 0:
        # A float would lose digits.
        return type(value) is int
    # A list could change after the check.
    return type(value) is tuple and all(_are_integers(v, depth - 1) for v in value)
