"""The search for the smallest price of records that keep to a pattern, with the witnesses that prove it.

The kernel proves a claimed price or refuses it (:mod:`fitnoise.kernel.designs.witness`). This module finds claims. It
enumerates sets of records where they are few. Otherwise it takes bounds by blocks, Shor's bound, or branch and bound.

**Trust.** This module is untrusted: a mistake here costs accuracy, never privacy.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TypeVar

from fitnoise.kernel.designs._base import Design
from fitnoise.kernel.designs.sectors import Strategy
from fitnoise.kernel.designs.witness import Budget, Claim, Closed, RecordProblem, Witness
from fitnoise.kernel.units import Adjacency
from fitnoise.solving.moving_records import max_cost_path
from fitnoise.solving.record_sets import MAX_SETS, max_cost_set
from fitnoise.solving.relaxations import bounds

Bound = tuple[int, bool, list[Witness]]
"""A bound on the records of a group, True if it is on records in cells with values, and witnesses that may prove it."""


D = TypeVar("D", bound=Design)


def claimed(design: D, adjacency: Adjacency) -> D:
    """Return the design with the smallest price that is found and proven for one unit of this adjacency.

    Only strategies of sectors have such claims, and only for records that keep to a pattern.
    """
    if not isinstance(design, Strategy) or not adjacency.pattern:
        return design
    unclaimed = best = replace(design, claim=None)
    lowest = max(unclaimed.unit_profile(adjacency))
    for number in range(len(adjacency.pattern.caps)):
        claim = find_claim(unclaimed, adjacency, number)
        if claim is not None:
            candidate = replace(unclaimed, claim=claim)
            price = max(candidate.unit_profile(adjacency))
            best, lowest = (candidate, price) if price < lowest else (best, lowest)
    return best


def find_claim(strategy: Strategy, adjacency: Adjacency, number: int) -> Claim | None:
    """Return the claim for one cap with the smallest bounds that are found and proven.

    Args:
        strategy: The strategy.
        adjacency: The neighbour relation, with a pattern.
        number: The index of the cap among those of the pattern.

    Returns:
        The claim; None if no bound is found or proven for a group.
    """
    count = max(strategy.fixed_groups(adjacency)) + 1
    of_places = strategy.record_problems(adjacency, number, [False] * count)
    of_moving = strategy.record_problems(adjacency, number, [True] * count)
    entries = []
    for places, moving in zip(of_places, of_moving, strict=True):
        entry = None if places is None else _proven(places, moving, MAX_SETS // count)
        if entry is None:
            return None
        entries.append(entry)
    moves, values, proofs = zip(*entries, strict=True)
    return Claim(number, moves, values, proofs)


def _proven(places: RecordProblem, moving: RecordProblem | None, limit: int) -> tuple[bool, int, Witness] | None:
    """Return the smallest bound of a group that one of its witnesses proves."""
    for bound, moves, witnesses in sorted(_bounds(places, moving, limit), key=lambda entry: entry[0]):
        problem = moving if moves else places
        for witness in witnesses:
            if problem is not None and witness.proves(problem, bound, Budget()):
                return moves, bound, witness
    return None


def _bounds(places: RecordProblem, moving: RecordProblem | None, limit: int) -> Iterator[Bound]:
    """Yield the bounds that the searches find for a group.

    Args:
        places: The problem of the places.
        moving: The problem of cells with values; None if records may share a place.
        limit: The largest number of sets that are compared.
    """
    nodes, max_size = places.nodes, places.max_size
    above = max_cost_set(nodes.x, nodes.compatible, max_size, limit)
    if above is not None:
        yield above, False, [Closed()]
    else:
        results = bounds(nodes.x, nodes.compatible, max_size)
        if not results:
            return
        above = results[0][0]
        yield from ((bound, False, [witness]) for bound, witness in results)
    if moving is not None and (moving.sizes or moving.places[-1] + 1 < len(moving.places)):
        path = max_cost_path(
            moving.joint_costs, moving.compatible, moving.costs, moving.places, moving.sizes, max_size, above
        )
        if path is not None:
            yield path, True, [Closed()]
