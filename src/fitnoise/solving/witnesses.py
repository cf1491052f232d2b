"""The search for the smallest price of the records of a unit, with the witnesses that prove it.

The kernel proves a claimed price or refuses it. This module finds claims.

**Records that keep to a pattern** (:mod:`fitnoise.kernel.designs.witness`). The module enumerates sets of records where
they are few. Otherwise it takes bounds by blocks, Shor's bound, or branch and bound.

**Products with many joint cells** (:mod:`fitnoise.kernel.designs.clusters`). The clusters are the largest sets. λ
balances the largest cost of each value between them, one attribute after the other.

**Trust.** This module is untrusted: a mistake here costs accuracy, never privacy.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TypeVar, cast

import numpy as np

from fitnoise.kernel.arrays import Integers
from fitnoise.kernel.designs._base import Design
from fitnoise.kernel.designs.clusters import ClusterClaim, Costs, cluster_costs, varying
from fitnoise.kernel.designs.products import ProductStrategy
from fitnoise.kernel.designs.sectors import Strategy
from fitnoise.kernel.designs.witness import MAX_NODES, MAX_SHIFT, Budget, Claim, Closed, RecordProblem, Witness
from fitnoise.kernel.units import Adjacency
from fitnoise.solving.moving_records import max_cost_path
from fitnoise.solving.record_sets import MAX_SETS, max_cost_set
from fitnoise.solving.relaxations import bounds

Bound = tuple[int, str, list[Witness]]
"""A bound on the records of a group, their kind in a :class:`Claim`, and witnesses that may prove it.

A group is the cells that agree in what the records of one unit have in common."""

BALANCING_ROUNDS = 40
"""The number of rounds that balance the cost of every value between clusters."""

SHORT_PROOF_BITS = 16
"""A bound that is proven without sets is claimed if it is at most the 2^16-th part above the exact cost."""

SMALLER_BITS = 8
"""The number of bits that λ loses where its integers were too large to be proven."""

D = TypeVar("D", bound=Design)


def claimed(design: D, adjacency: Adjacency) -> D:
    """Return the design with the smallest price that is found and proven for one unit of this adjacency.

    Strategies of sectors have such claims for records that keep to a pattern. Products have them if their joint cells
    are too many for an exact price.
    """
    if isinstance(design, ProductStrategy):
        return cast(D, _with_clusters(design))
    if not isinstance(design, Strategy) or not adjacency.pattern:
        return design
    unclaimed = best = replace(design, claim=None)
    lowest = unclaimed.unit_cost(adjacency)
    for number, find in itertools.product(range(len(adjacency.pattern.caps)), (find_claim, find_replaced_claim)):
        claim = find(unclaimed, adjacency, number)
        if claim is not None:
            candidate = replace(unclaimed, claim=claim)
            price = candidate.unit_cost(adjacency)
            best, lowest = (candidate, price) if price < lowest else (best, lowest)
    return best


def _with_clusters(design: ProductStrategy) -> ProductStrategy:
    """Return the design with a claim if its price is not exact and the claim is smaller."""
    if design.is_exact:
        return design
    costs = design.costs_by_set()
    claim = find_cluster_claim(costs, design.sizes)
    is_smaller = claim is not None and claim.bound < sum(int(x.max()) for x in costs.values())
    return replace(design, claim=claim if is_smaller else None)


def find_claim(strategy: Strategy, adjacency: Adjacency, number: int) -> Claim | None:
    """Return the claim for one cap with the smallest bounds that are found and proven.

    Args:
        strategy: The strategy.
        adjacency: The neighbour relation, with a pattern.
        number: The index of the cap among those of the pattern.

    Returns:
        The claim; None if no bound is found or proven for a group.
    """
    # Without shares, the first groups may use up the budget. Shares leave some for every group.
    return _find_claim(strategy, adjacency, number, shared=False) or _find_claim(
        strategy, adjacency, number, shared=True
    )


def find_replaced_claim(strategy: Strategy, adjacency: Adjacency, number: int) -> Claim | None:
    """Return the claim on removed and added records together, as `find_claim` does; None if no records are replaced."""
    (problem,) = strategy.record_problems(adjacency, number, ["replaced"])
    if problem is None or problem.node_count > MAX_NODES:
        return None
    x, compatible, _, _ = problem.nodes
    above = max_cost_set(x, compatible, problem.max_size, parts=problem.parts)
    # A proof by closed sets looks at up to MAX_SETS sets whenever the plan is read.
    relaxed = bounds(problem.relaxed, np.ones_like(compatible), problem.max_size, problem.parts)
    if above is not None:
        relaxed = [(bound, witness) for bound, witness in relaxed if bound <= above + (above >> SHORT_PROOF_BITS)]
        relaxed.append((above, Closed()))
    for bound, witness in relaxed:
        if witness.proves(problem, bound, Budget()):
            return Claim(number, ("replaced",), (bound,), (witness,))
    return None


def _find_claim(strategy: Strategy, adjacency: Adjacency, number: int, *, shared: bool) -> Claim | None:
    """Return the claim of `find_claim`, proven within one budget for all groups.

    shared: True if a group may take no more than an equal share of what is left; else it may take all of it.
    """
    count = max(strategy.fixed_groups(adjacency)) + 1
    of_places = strategy.record_problems(adjacency, number, ["places"] * count)
    of_moving = strategy.record_problems(adjacency, number, ["moving"] * count)
    entries, budget = [], Budget()
    for i, (places, moving) in enumerate(zip(of_places, of_moving, strict=True)):
        parts = count - i if shared else 1
        entry = None if places is None else _proven(places, moving, MAX_SETS // count, budget, parts)
        if entry is None:
            return None
        entries.append(entry)
    kinds, values, proofs = zip(*entries, strict=True)
    return Claim(number, kinds, values, proofs)


def find_cluster_claim(costs: Costs, sizes: Sequence[int]) -> ClusterClaim | None:
    """Return the claim with balanced clusters, or None if it is not proven.

    Args:
        costs: f_T of every measured set.
        sizes: The number of values of every attribute.
    """
    axes_by_set = {t: varying(t, x) for t, x in costs.items()}
    larger = {axes[:i] + axes[i + 1 :]: axes for axes in axes_by_set.values() for i in range(len(axes))}
    homes = {}
    # A set goes on to a set with one attribute more, as long as there is one.
    for t, cluster in axes_by_set.items():
        while cluster in larger:
            cluster = larger[cluster]  # noqa: PLW2901
        homes[t] = cluster
    clusters = tuple(dict.fromkeys(homes.values()))
    # Sums of the costs of clusters, and their differences to those of others, stay below 2⁶².
    shift = max(0, (sum(int(x.max()) for x in costs.values()) * len(clusters)).bit_length() - 61)
    order = list(dict.fromkeys(a for axes in axes_by_set.values() for a in axes))
    # λ grows in each round and may leave the range of the kernel. Then costs of fewer bits are balanced.
    for further in (0, SMALLER_BITS):
        if shift + further > MAX_SHIFT:
            return None
        members = {c: {t: x for t, x in costs.items() if homes[t] == c} for c in clusters}
        entries = {c: cluster_costs(inside, c, sizes, shift + further) for c, inside in members.items()}
        bound, levels = _balanced(entries, order)
        by_set = tuple(clusters.index(homes[t]) for t in costs)
        claim = ClusterClaim(bound << shift + further, clusters, by_set, levels, shift + further)
        if claim.proves(costs, sizes):
            return claim
    return None


def _balanced(
    clusters: dict[tuple[int, ...], Integers], order: list[int]
) -> tuple[int, tuple[tuple[tuple[int, ...], ...], ...]]:
    """Return the sum of the largest costs of balanced clusters, and λ of every cluster; `clusters` are changed.

    Args:
        clusters: The cost of every cell of each cluster.
        order: The attributes, in the order in which a round balances them.
    """
    levels = {(c, a): np.zeros(x.shape[i], dtype=np.int64) for c, x in clusters.items() for i, a in enumerate(c)}
    for a in order * (BALANCING_ROUNDS if len(clusters) > 1 else 0):
        here = [(c, x, c.index(a)) for c, x in clusters.items() if a in c]
        tops = [x.max(axis=tuple(i for i in range(x.ndim) if i != axis)) for _, x, axis in here]
        mean, rest = np.divmod(sum(tops), len(here))
        for j, ((c, x, axis), top) in enumerate(zip(here, tops, strict=True)):
            # The first clusters take the remainder, so the steps of a value add up to 0.
            step = mean + (j < rest) - top
            levels[c, a] += step
            np.add(x, step.reshape([-1 if i == axis else 1 for i in range(x.ndim)]), out=x)
    by_cluster = tuple(tuple(tuple(levels[c, a].tolist()) for a in c) for c in clusters)
    return sum(int(x.max()) for x in clusters.values()), by_cluster


def _proven(
    places: RecordProblem, moving: RecordProblem | None, limit: int, budget: Budget, parts: int
) -> tuple[str, int, Witness] | None:
    """Return the smallest bound of a group that one of its witnesses proves with a part of a budget, and take it.

    The result is the kind of the records, the bound, and the witness. None if no bound is proven.

    parts: The number by which what is left of the budget is divided.
    """
    for bound, kind, witnesses in sorted(_bounds(places, moving, limit), key=lambda entry: entry[0]):
        problem = moving if kind == "moving" else places
        for witness in witnesses:
            # A try that fails takes nothing: the kernel checks only the witnesses of the claim.
            part = Budget()
            sets, numbers = part.sets, part.numbers = budget.sets // parts, budget.numbers // parts
            if problem is not None and witness.proves(problem, bound, part):
                budget.take(sets - part.sets, numbers - part.numbers)
                return kind, bound, witness
    return None


def _bounds(places: RecordProblem, moving: RecordProblem | None, limit: int) -> Iterator[Bound]:
    """Yield the bounds that the searches find for a group.

    Args:
        places: The problem of the places.
        moving: The problem of cells with values; None if records may share a place.
        limit: The largest number of sets that are compared.
    """
    (x, compatible, _, _), max_size = places.nodes, places.max_size
    above = max_cost_set(x, compatible, max_size, limit)
    if above is not None:
        yield above, "places", [Closed()]
    else:
        results = bounds(x, compatible, max_size)
        if not results:
            return
        above = results[0][0]
        yield from ((bound, "places", [witness]) for bound, witness in results)
    # Without values, and with one cell a place, this is the problem of the places again.
    if moving is not None and (moving.sizes or moving.places[-1] + 1 < len(moving.places)):
        path = max_cost_path(
            moving.joint_costs, moving.compatible, moving.costs, moving.places, moving.sizes, max_size, above
        )
        if path is not None:
            yield path, "moving", [Closed()]
