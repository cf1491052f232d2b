"""Prove a claimed price of the records of one unit from a witness, in whole numbers. Part of the trust kernel.

Planning searches for a claim and its witness. The kernel only checks them, so no search and no floating point enters
a price.

| symbol | meaning |
|---|---|
| i, j | nodes: a cell, with values of the attributes in which records of the unit may differ |
| T | a unit's records: nodes in different places, any two compatible, at most g of them in each part of the places |
| X (n, n) | integer cost of two records by their nodes; X_ii is that of one record |
| v(T), b | Σ_{i,j∈T} X_ij; the claim v(T) ≤ b |
| k | the number of records that a set may still gain |
| h | the number of parts: 1, or 2 for removed and added records |

**Removed and added records.** Records of one unit are replaced: those of T₋ are removed and those of T₊ added. The data
change by the difference of both. So they cost Σ X within T₋ and within T₊, less twice the sum of X between them. With
a second node for each cell and values, this is v(T) for T = T₋ ∪ T₊, and −X between nodes of different parts. A record
of both sets cancels. So the check takes a node and its second node as incompatible.

**Statement.** If a check returns True, v(T) ≤ b for every T, for any integers in the witness. A check refuses
anything but integers of the stated shapes.

**Proof by multipliers.** Let t ∈ {0, 1}ⁿ be the indicator of T, and z = (1, t). For any integers y and ℓ ≥ 0, as
t_i² = t_i,

    tᵀXt = Σ y + ℓ (2 Σ t − n) − zᵀNz,    N = [[Σ y − ℓn, (ℓ − 2y)ᵀ], [ℓ − 2y, 4 diag(y) − X]].

Σ y has a term y₀ of its own. For any integer matrix L, zᵀNz ≥ zᵀ(N − LLᵀ)z ≥ −Σ |N − LLᵀ|, as LLᵀ is positive
semidefinite and |z_i| ≤ 1. And Σ t ≤ hg. So v(T) ≤ Σ y + ℓ (2hg − n) + Σ |N − LLᵀ|. No T holds an incompatible pair, so
its X_ij may have any value. The check takes −max(X_ii, X_jj): then the bound of two such nodes of equal cost is exact.

**Proof by blocks.** For any γ, and any β of each block of consecutive nodes, let R = X − γ 11ᵀ − ⊕_b β_b 11ᵀ. Then

    v(T) ≤ γ m² + Σ_b (β_b m_b² + the m_b largest a_i of b),    a_i = R_ii + Σ_{j≠i} max(R_ij, 0),

with m_b nodes in block b and m in all. A block lies in one part. The check takes the exact maximum over all m_b.

**Proof by closed sets.** Sets are built up in the order of places. A set C is closed if

    v(C) + the k largest, over later places p, of max(0, max_{j∈p} a_j + s_p) ≤ b,    a_j = X_jj + 2 Σ_{c∈C} X_jc.

s_p is the sum of the k − 1 largest max(X_jl, 0) between p and other later places. With two parts, a part with k_h
records to gain offers its k_h largest, and k is their sum. No set that begins with a closed C
costs more than b. Every T is reached from ∅ node by node. So it begins with a closed set, or the check looks at T
itself. The cost depends on values only through agreement, by the form of `RecordProblem`. So values may be renamed, and
of those that no record of C has, only the first is tried.

**Rounding.** All coefficients of X in v(T) are 1 and b is an integer. So v(T) ≤ b follows for X from the same statement
for ⌈X/2^s⌉ and ⌊b/2^s⌋.

**Trust.** A check that accepts a false claim lets a plan charge less than its records cost. The limits below bound the
memory and the time that any claim takes, before arrays are made. A claim beyond a limit is not proven.
"""

from __future__ import annotations

import abc
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from fitnoise.errors import PlanError
from fitnoise.kernel.arrays import Exact, Indices, Integers

MAX_NODES = 2**10
"""The largest number of nodes of a problem."""

MAX_PLACES = 2**7
"""The largest number of places in which sets are built up: 64 bits hold all their sums."""

MAX_MULTIPLIERS = 2**8
"""The largest number of nodes for which multipliers are checked."""

MAX_BITS = 2**12
"""The largest number of bits of an integer of a witness."""

MAX_SHIFT = 2**13
"""The largest shift: costs have fewer bits."""

MIN_SHIFT = -(2**7)
"""The smallest shift: a smaller one would make the integers of a problem long."""

MAX_SETS = 2**20
"""The largest number of sets that are opened for all problems of a claim together."""

MAX_NUMBERS = 2**27
"""The largest number of 64-bit words that are computed for all problems of a claim together: 1 GB, if all were held."""

DIGITS = 40
"""The number of bits of the integers of which sets are built up."""

FORBIDDEN = -(2**60)
"""The gain of a node that is incompatible with a set; no sum of further gains makes up for it."""

NUMBERS_PER_BATCH = 2**17
"""The largest number of gains that are computed at once."""


class _NotProvenError(Exception):
    """A set that costs more than the claim, or a check that would take more than its budget."""


@final
class Budget:
    """The sets and numbers that the checks of one claim may still compute."""

    def __init__(self) -> None:
        self.sets, self.numbers = MAX_SETS, MAX_NUMBERS

    def take(self, sets: int, numbers: int) -> None:
        """Take these numbers from the budget; raise _NotProvenError if less is left."""
        self.sets, self.numbers = self.sets - sets, self.numbers - numbers
        if min(self.sets, self.numbers) < 0:
            raise _NotProvenError


@final
@dataclass(frozen=True, eq=False)
class RecordProblem:
    """The records that one unit can have, and their costs.

    Attributes:
        joint_costs: The cost of two records by the attributes in which they agree and by their cells, (2^f, n, n). The
            first axis has the a-th attribute in bit a. Python integers, symmetric; entries of incompatible pairs are
            ignored.
        compatible: True for pairs that may occur together, of the same shape, symmetric. No two records share a place.
        costs: The cost of one record in each cell, (n,), Python integers.
        places: The place of each cell, (n,), from 0 on, not decreasing, and no place without a cell.
        sizes: The number of values of each attribute in which records may differ, (f,), at least 1.
        max_size: The largest number of records in each part, at least 1.
        parts: h, the number of parts. The first part has the first places, and each has equally many cells and places.

    Raises:
        PlanError: A field has another type, form or range.
    """

    joint_costs: Exact
    compatible: NDArray[np.bool_]
    costs: tuple[int, ...]
    places: tuple[int, ...]
    sizes: tuple[int, ...]
    max_size: int
    parts: int = 1

    def __post_init__(self) -> None:
        n, x = len(self.costs), self.joint_costs
        lists = (self.costs, self.places, self.sizes)
        integers = all(type(row) is tuple and all(type(v) is int for v in row) for row in lists)
        if not integers or type(self.max_size) is not int or min(*self.sizes, self.max_size, n) < 1 or n % self.parts:
            raise _invalid_problem()
        shape = (2 ** len(self.sizes), n, n)
        if x.shape != shape or x.dtype != object or self.compatible.shape != shape or self.compatible.dtype != bool:
            raise _invalid_problem()
        steps = np.diff(self.places, prepend=-1)
        symmetric = all((a == a.transpose(0, 2, 1)).all() for a in (np.where(self.compatible, x, 0), self.compatible))
        if len(steps) != n or steps[0] != 1 or not set(steps.tolist()) <= {0, 1} or not symmetric:
            raise _invalid_problem()
        if not all(type(v) is int for v in x.flat):
            raise _invalid_problem()

    @property
    def _room(self) -> list[int]:
        """The number of values of each attribute that records can use, at most one for each place and record."""
        # Costs depend on values only through agreement, so values may be renamed to the first ones.
        return [min(size, self.max_size * self.parts, self.places[-1] + 1) for size in self.sizes]

    @property
    def node_count(self) -> int:
        """The number of nodes: cells, each with all values that records can use."""
        return len(self.costs) * math.prod(self._room)

    @cached_property
    def cost_length(self) -> int:
        """The number of 64-bit words of the longest cost."""
        largest = np.where(self.compatible, abs(self.joint_costs), 0).max(initial=max(map(abs, self.costs)))
        return _max_length([int(largest)])

    @cached_property
    def nodes(self) -> tuple[Exact, NDArray[np.bool_], Indices, Indices]:
        """X (N, N), compatible pairs (N, N), places (N,) and values (N, f) of all N nodes, in the order of places.

        The nodes are every cell with every choice of values that records can use.
        """
        choices = np.array(list(itertools.product(*map(range, self._room))), dtype=np.intp)
        cells, values = np.arange(len(self.costs)).repeat(len(choices)), np.tile(choices, (len(self.costs), 1))
        agreeing = np.zeros((len(cells),) * 2, dtype=np.intp)
        for a, column in enumerate(values.T):
            agreeing += (column[:, None] == column).astype(np.intp) << a
        where, places = (agreeing, cells[:, None], cells), np.array(self.places, dtype=np.intp)[cells]
        compatible = self.compatible[where] & (places[:, None] != places)
        x = np.where(compatible, self.joint_costs[where], 0)
        np.fill_diagonal(x, np.array(self.costs, dtype=object)[cells])
        return x, compatible, places, values

    @property
    def relaxed(self) -> Exact:
        """X with −max(X_ii, X_jj) for incompatible pairs, and 0 for such a node and its second node, (n, n).

        Where each place has one node, the latter is −X_ii, too.
        """
        x, compatible, _, _ = self.nodes
        costs, n = x.diagonal(), len(x)
        x = np.where(compatible | np.eye(n, dtype=bool), x, -np.maximum(costs[:, None], costs))
        if self.parts > 1 and n > self.places[-1] + 1:
            twins = np.eye(n, k=n // 2, dtype=bool)
            x[(twins | twins.T) & ~compatible] = 0
        return np.asarray(x)


class Witness(abc.ABC):
    """Integers that may prove a claim."""

    @final
    def proves(self, problem: RecordProblem, bound: int, budget: Budget) -> bool:
        """Return True if the witness proves that no set of records costs more than `bound`.

        Args:
            problem: The records that a unit can have.
            bound: The claim.
            budget: The sets and numbers that the check may compute. The check takes the ones that it computes, and
                proves nothing beyond them.
        """
        if bound < 0 or problem.node_count > MAX_NODES:
            return False
        try:
            # Some four arrays of as many integers as X, and as long ones, are held at once.
            budget.take(0, 4 * problem.node_count**2 * problem.cost_length)
            return self._proves(problem, bound, budget)
        except _NotProvenError:
            return False

    @abc.abstractmethod
    def _proves(self, problem: RecordProblem, bound: int, budget: Budget) -> bool:
        """Return True if the witness proves a claim of at least 0; the arguments are those of `proves`."""


@final
@dataclass(frozen=True)
class Multipliers(Witness):
    """A proof by multipliers, for X in units of 2^shift.

    Attributes:
        y: y₀ and y, (n + 1,).
        free: ℓ, at least 0.
        root: The rows of L, a lower triangle: row i has i + 1 integers, i = 0 … n.
        shift: s, of either sign.
    """

    y: tuple[int, ...]
    free: int
    root: tuple[tuple[int, ...], ...]
    shift: int

    def _proves(self, problem: RecordProblem, bound: int, budget: Budget) -> bool:
        n, y, free = problem.node_count, self.y, self.free
        if not (_are_integers(y, n + 1) and _are_integers((free,), 1) and free >= 0 and _is_shift(self.shift)):
            return False
        fits = type(self.root) is tuple and len(self.root) == n + 1 and n <= MAX_MULTIPLIERS
        if not fits or not all(_are_integers(row, i) for i, row in enumerate(self.root, 1)):
            return False
        budget.take(0, (n + 1) ** 3 * _max_length([v for row in self.root for v in row]))
        # N of the module head, with X in units of 2^shift, rounded up.
        form = np.diag(np.array([sum(y) - free * n, *(4 * v for v in y[1:])], dtype=object))
        form[1:, 1:] -= _rounded_up(problem.relaxed, self.shift)
        form[0, 1:] = form[1:, 0] = [free - 2 * v for v in y[1:]]
        root = np.array([[*row, *[0] * (n + 1 - len(row))] for row in self.root], dtype=object)
        # Entries of z are 0 or 1, so zᵀRz ≥ −Σ |R| for R = N − LLᵀ.
        max_size = min(problem.max_size * problem.parts, n)
        proven = sum(y) + free * (2 * max_size - n) + int(abs(form - root @ root.T).sum())
        return _scaled_back(proven, self.shift) <= bound


@final
@dataclass(frozen=True)
class Blocks(Witness):
    """A proof by blocks of equal length, for X in units of 2^shift.

    Attributes:
        length: The number of nodes of a block; it divides the number of nodes of a part.
        across: γ, the number that is subtracted from all entries of X.
        levels: β, for each block the number that is subtracted from all entries within it.
        shift: s, of either sign.
    """

    length: int
    across: int
    levels: tuple[int, ...]
    shift: int

    def _proves(self, problem: RecordProblem, bound: int, budget: Budget) -> bool:
        n, length, parts = problem.node_count, self.length, problem.parts
        if not (_are_integers((length, self.across), 2) and _is_shift(self.shift)) or not 0 < length <= n:
            return False
        if n % (length * parts) or not _are_integers(self.levels, n // length):
            return False
        max_size = min(problem.max_size, n // parts)
        budget.take(0, 2 * n * (n + max_size * parts))
        rest = _rounded_up(problem.relaxed, self.shift) - self.across
        for b, level in enumerate(self.levels):
            here = slice(b * length, (b + 1) * length)
            rest[here, here] -= level
        # Which other nodes T has is not known, so their entries count only if they are above 0.
        costs = np.where(np.eye(n, dtype=bool), rest, np.maximum(rest, 0)).sum(axis=1).reshape(-1, length)
        # By the number of nodes in the blocks so far, the largest value: every division among blocks is looked at.
        best, in_part, each = {0: 0}, {0: 0}, n // (length * parts)
        for b, (level, block) in enumerate(zip(self.levels, costs.tolist(), strict=True), 1):
            sums = enumerate(itertools.accumulate(sorted(block, reverse=True), initial=0))
            in_part = _joined(in_part, {i: cost + level * i * i for i, cost in sums}, max_size)
            if b % each == 0:
                best, in_part = _joined(best, in_part, n), {0: 0}
        # The set of no records costs 0, and no claim is below 0.
        return _scaled_back(max(self.across * m * m + v for m, v in best.items() if m), self.shift) <= bound


def _joined(one: Mapping[int, int], other: Mapping[int, int], max_size: int) -> dict[int, int]:
    """Return the largest sum of two values whose numbers of nodes add up to m, for each m up to `max_size`."""
    joined: dict[int, int] = {}
    for (m, value), (i, further) in itertools.product(one.items(), other.items()):
        if m + i <= max_size:
            joined[m + i] = max(value + further, joined.get(m + i, value + further))
    return joined


class _Opened(NamedTuple):
    """Sets of m nodes, S of them, in units of the rounded costs.

    Attributes:
        sets: The nodes of each set, (S, m).
        costs: v of each set, rounded up, (S,).
        gains: a_j of each node j for each set, (S, N); near FORBIDDEN for a node incompatible with the set.
        begin: The first place after those of each set, (S,).
        used: For each set and attribute, the first value that no record of the set has, (S, f).
        room: The number of records that each set may still gain in each part, (S, h).
    """

    sets: Indices
    costs: Integers
    gains: Integers
    begin: Indices
    used: Indices
    room: Indices


@final
@dataclass(frozen=True)
class Closed(Witness):
    """A proof by closed sets: the claim itself closes them."""

    def _proves(self, problem: RecordProblem, bound: int, budget: Budget) -> bool:
        count = problem.places[-1] + 1
        if count > MAX_PLACES:
            return False
        budget.take(0, count**3)
        _ClosedSets(problem, bound, budget).close_all()
        return True


@final
class _ClosedSets:
    """The check of :class:`Closed` for one problem."""

    def __init__(self, problem: RecordProblem, bound: int, budget: Budget) -> None:
        self.x, self.compatible, self.places, self.values = problem.nodes
        self.bound, self.budget, self.cost_length = bound, budget, problem.cost_length
        count = problem.places[-1] + 1
        self.parts, self.max_size = problem.parts, min(problem.max_size, count // problem.parts)
        shift = max(int(abs(self.x).max()).bit_length() - DIGITS, 0)
        # Sums stay below 2⁵⁷, so a larger claim means the same.
        self.top = min(bound >> shift, -FORBIDDEN)
        rounded = _rounded_up(self.x, shift)
        self.costs = rounded.diagonal().astype(np.int64)
        self.pair_gains = np.where(self.compatible, rounded, FORBIDDEN).astype(np.int64)
        self.starts = np.flatnonzero(np.diff(self.places, prepend=-1))
        self.part_of = self.places * self.parts // count
        self.later = np.arange(count) >= np.arange(count + 1)[:, None]
        pairs = self._pairs(self.pair_gains)
        # partner_sums[p₀, p, k − 1] is s_p of the module head, with p₀ the first later place.
        self.partner_sums = np.zeros((count + 1, count, count), dtype=np.int64)
        self.partner_sums[:, :, 1:] = np.cumsum(-np.sort(-pairs * self.later[:, None, :], axis=2), axis=2)[:, :, :-1]
        self.exact_partner_sums = cache(self._exact_partner_sums)

    def close_all(self) -> None:
        """Raise _NotProvenError unless every set is closed, or is looked at and costs at most the claim."""
        # Depth first: memory holds the batches along one path, and never all sets.
        none = np.zeros((1, 0), dtype=np.intp)
        room = np.full((1, self.parts), self.max_size)
        self._close(_Opened(none, np.zeros(1, np.int64), self.costs[None], none.sum(axis=1), 0 * self.values[:1], room))

    def _close(self, opened: _Opened) -> None:
        for batch in self._longer(opened):
            self._close(batch)

    def _longer(self, opened: _Opened) -> Iterator[_Opened]:
        """Yield the sets with one node more that may gain further records, in batches.

        Closed sets get no further node. Every longer set is looked at before the first batch: one that costs more than
        the claim raises _NotProvenError.
        """
        sums = self.partner_sums[opened.begin, :, opened.room.sum(axis=1) - 1]
        limits = opened.costs + self._max_gain(opened.gains, sums, opened.begin, opened.room)
        # Limits are rounded up, so a set that is closed here is closed exactly.
        alive = limits > self.top
        # Each of at most (hg)² entries is rounded up by less than 1. Limits closer to the claim are computed exactly.
        for i in np.flatnonzero(alive & (limits <= self.top + (self.parts * self.max_size) ** 2)).tolist():
            self.budget.take(len(self.starts), len(self.starts) * len(self.x) * self.cost_length)
            alive[i] = self._exact_limit(opened.sets[i], int(opened.begin[i]), opened.room[i]) > self.bound
        opened = _Opened(*(column[alive] for column in opened))
        # Values may be renamed: of those that no record of the set has, only the first is tried.
        unused = (opened.used[:, None] >= self.values).all(axis=2)
        # Gains of compatible nodes are sums of few integers of 40 bits, far above the limit.
        free = self.later[opened.begin][:, self.places] & (opened.gains > FORBIDDEN >> 1) & unused
        free &= opened.room[:, self.part_of] > 0
        parents, nodes = np.nonzero(free)
        self.budget.take(len(parents), len(parents) * len(self.x))
        costs = opened.costs[parents] + opened.gains[parents, nodes]
        # Rounding alone may lift a cost above the claim, so these sets are added up exactly.
        for i in np.flatnonzero(costs > self.top).tolist():
            chosen = [*opened.sets[parents[i]].tolist(), int(nodes[i])]
            self.budget.take(len(chosen), len(chosen) ** 2 * self.cost_length)
            if self.x[np.ix_(chosen, chosen)].sum() > self.bound:
                raise _NotProvenError
        step = max(NUMBERS_PER_BATCH // len(self.x), 1)
        room = opened.room[parents] - (self.part_of[nodes][:, None] == np.arange(self.parts))
        longer = np.flatnonzero(room.any(axis=1))
        for here in (longer[i : i + step] for i in range(0, len(longer), step)):
            p, j = parents[here], nodes[here]
            # Cut at FORBIDDEN: repeated sums would wrap around in 64 bits.
            gains = np.maximum(opened.gains[p] + 2 * self.pair_gains[j], FORBIDDEN)
            sets, used = np.column_stack([opened.sets[p], j]), np.maximum(opened.used[p], self.values[j] + 1)
            yield _Opened(sets, costs[here], gains, self.places[j] + 1, used, room[here])

    def _max_gain(self, gains: Exact, partner_sums: Exact, begin: Indices, room: Indices) -> Exact:
        """Return an upper bound on the total that further records in later places add to the cost of each set, (S,).

        Args:
            gains: a_j of each node for each set, (S, N).
            partner_sums: s_p of each place for each set, (S, places).
            begin: The first later place of each set, (S,).
            room: The largest number of further records of each set in each part, (S, h), of which some is above 0.
        """
        best = np.maximum.reduceat(gains, self.starts, axis=1) + partner_sums
        best = np.where(self.later[begin], np.maximum(best, 0), 0).reshape(len(best), self.parts, -1)
        falling, counted = -np.sort(-best, axis=2), np.arange(best.shape[2]) < room[:, :, None]
        return np.asarray(np.where(counted, falling, 0).sum(axis=(1, 2)))

    def _exact_limit(self, chosen: Indices, begin: int, room: Indices) -> int:
        """Return the exact bound on the cost of a set with further records in places from `begin` on."""
        partner_sums = self.exact_partner_sums(begin, int(room.sum()))
        gains = self.x.diagonal() + 2 * self.x[chosen].sum(axis=0)
        # So low a gain of an incompatible node counts as 0.
        gains = np.where(self.compatible[chosen].all(axis=0), gains, -abs(gains) - partner_sums.max())
        gained = self._max_gain(gains[None], partner_sums[None], np.array([begin]), room[None])
        return int(self.x[np.ix_(chosen, chosen)].sum() + gained[0])

    def _exact_partner_sums(self, begin: int, k: int) -> Exact:
        """Return the sums of the k − 1 largest exact entries between each place and later ones, (places,)."""
        pairs = self._pairs(self.x) * self.later[begin]
        return np.asarray(-np.sort(-pairs, axis=1)[:, : k - 1].sum(axis=1))

    def _pairs(self, x: Exact) -> Exact:
        """Return the largest entry between nodes of each two places, at least 0, and 0 of a place and itself."""
        by_row = np.maximum.reduceat(np.maximum(x, 0), self.starts, axis=0)
        pairs = np.maximum.reduceat(by_row, self.starts, axis=1)
        np.fill_diagonal(pairs, 0)
        return np.asarray(pairs)


@final
@dataclass(frozen=True)
class Claim:
    """The price that a plan claims for the records of a unit under one cap of its pattern, with witnesses.

    Records of one unit agree in what is fixed. So all of them lie in cells of one group, and each group has a bound.

    Attributes:
        cap: The index of the cap among those of the pattern.
        kinds: For each group, the records of its bound: "places", "moving" ones in cells with values, or "replaced"
            ones. Replaced records are moving ones, of which some are removed and others added.
        bounds: The claimed bound of each group, at least 0, in the unit of the design.
        witnesses: The witness of each bound.

    Raises:
        PlanError: A field has another type, there is no group or not one entry for each, or a number is below 0.
    """

    cap: int
    kinds: tuple[str, ...]
    bounds: tuple[int, ...]
    witnesses: tuple[Witness, ...]

    def __post_init__(self) -> None:
        lists = ((self.kinds, {str}), (self.bounds, {int}), (self.witnesses, {Multipliers, Blocks, Closed}))
        good = all(type(row) is tuple and set(map(type, row)) <= types for row, types in lists)
        good = good and type(self.cap) is int and self.cap >= 0
        if not good or not 0 < len(self.bounds) == len(self.kinds) == len(self.witnesses) or min(self.bounds) < 0:
            raise invalid_claim()

    def proves(self, problems: Iterable[RecordProblem | None]) -> bool:
        """Return True if the witnesses prove the bounds of all groups.

        Args:
            problems: The problem of each group, in order; None for a group without one, of which nothing is proven.
        """
        # One budget for all groups: a plan may have many.
        budget = Budget()
        pairs = zip(problems, self.bounds, self.witnesses, strict=True)
        return all(p is not None and proof.proves(p, bound, budget) for p, bound, proof in pairs)


def _are_integers(row: Any, length: int) -> bool:
    """Return True for a tuple of `length` Python integers of at most `MAX_BITS` bits.

    A float would lose digits, and a tuple in it would become an axis of an array.
    """
    if type(row) is not tuple or len(row) != length:
        return False
    return all(type(v) is int and v.bit_length() <= MAX_BITS for v in row)


def _max_length(integers: list[int]) -> int:
    """Return the number of 64-bit words of the longest integer, at least 1."""
    return max(1, *(-(-v.bit_length() // 64) for v in integers))


def _is_shift(value: Any) -> bool:
    """Return True for a Python integer in the range of shifts."""
    return type(value) is int and MIN_SHIFT <= value <= MAX_SHIFT


def _rounded_up(x: Exact, shift: int) -> Exact:
    """Return ⌈x/2^shift⌉, exact for a negative shift."""
    return np.asarray(-(-x >> shift) if shift > 0 else x << -shift)


def _scaled_back(proven: int, shift: int) -> int:
    """Return the largest integer v with v ≤ proven · 2^shift."""
    return proven << shift if shift > 0 else proven >> -shift


def invalid_claim() -> PlanError:
    """Return the error for a claim of another form or class."""
    return PlanError(
        "claim-invalid",
        "The price that the plan claims for the records of a unit has another form than a check takes.",
        "It has one whole number of at least 0 and one proof for each group of cells. A product has one of each.",
        "Use the plan as fitnoise wrote it, or plan again.",
        "Nothing was measured.",
    )


def unproven_price() -> PlanError:
    """Return the error for a claim that its proofs do not prove."""
    return PlanError(
        "price-not-proven",
        "The plan claims a price for the records of a unit that its proofs do not prove.",
        "",
        "Use the plan as fitnoise wrote it, or plan again.",
        "Nothing was measured.",
    )


def _invalid_problem() -> PlanError:
    return PlanError(
        "record-problem-invalid",
        "The costs of the records of a unit have another form than a check takes.",
        "They are symmetric arrays of whole numbers for cells in the order of places.",
        "Give such costs.",
        "Nothing was measured.",
    )
