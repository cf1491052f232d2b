"""Queries split by the attributes they depend on, and applied to counts over these alone. Part of the trust kernel.

**Amounts.** A record of an amount low + j · step, j = 0 … K, lies between two of its knots t_0 < … < t_k: the ends of
the range and, of an amount with ceilings, these between them. With K_s steps from knot s − 1 to knot s, of which j has
passed J_s = min(max(j − K_1 − … − K_{s−1}, 0), K_s), it adds 1 − j to the count of knot 0 and J_s to that of each other
knot s; all of these together are one record, as the cells of any attribute are. A query that is b_s at knot s asks for
what is on the straight line between two knots, b_0 + Σ_s (b_s − b_{s−1}) J_s/K_s: K_s must divide b_s − b_{s−1}, and
then it is the whole number b_0 (1 − j) + Σ_s (b_0 + (b_s − b_{s−1})/K_s) J_s. Of several amounts the same is done along
each.

*Theorem.* What is measured of a record is then, in each of its amounts on its own, affine from each knot to the next,
with the values at the knots. Every price is a maximum, over the records of a unit (and over those in their place), of a
convex function of a sum of what these add; so, as a function of one amount of one record, all else as it is, it is
convex from each knot to the next, and nowhere there larger than at one of these two. Moving one amount after the other
to the knot beside it that is no cheaper leaves a unit whose amounts all are at knots. Hence prices over cells, of which
every knot is one, hold for every amount of the range, and are attained where they are for cells: the largest squared
distance, of one record, of any number of one unit, of records that are replaced, and what is summed up by cell over
several releases. Of patterns only while these are in other attributes than amounts.

Where the range of an amount goes by another attribute (`codings.Steps.classes`), j is that in the range of the record's
cell there, of the same K in all of them. What multiplies it are queries of the joint cells of both, so that nothing
above changes: in each cell of that attribute a record lies between the two ends of its range.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from fitnoise.errors import PlanError
from fitnoise.kernel.arrays import Exact, Indices
from fitnoise.kernel.designs._base import Cells, other_domain

SAFE = 2**62
"""Below this an int64 can be negated, added once and compared without overflow."""


def largest_entry(a: Exact) -> int:
    """Max |a_ij|, exact for every integer type (numpy's own absolute value of the least int64 is negative)."""
    return max(int(a.max()), -int(a.min()))


def exact_matmul(a: Exact, b: Exact) -> Exact:
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


def times(a: Exact, b: Exact, dtype: np.dtype[Any]) -> Exact:
    """A b in the ring of the type: Python integers, or int64 modulo 2⁶⁴."""
    if dtype.kind == "O":
        return exact_matmul(a, b).astype(object)
    return np.asarray(a.astype(np.int64) @ b.astype(np.int64))


@final
@dataclass(frozen=True)
class Part:
    """Queries that depend on the same structured attributes, and only on them.

    inner: these attributes, by name. places: which of the queries. queries: integers, (len(places), joint cells of the
    inner attributes): what multiplies their counts, along amounts those of 1 − j and of every J_s.
    """

    inner: tuple[str, ...]
    places: Indices
    queries: Exact


def split(queries: Exact, over: Cells) -> tuple[Part, ...]:
    """Split queries of the joint cells of structured attributes, (m, n_o), so that only what they show is counted.

    Raises:
        PlanError: they are no whole numbers between the knots of an amount, or what multiplies counts is too large.
    """
    groups: dict[tuple[int, ...], list[int]] = {}
    shaped = queries.reshape(-1, *over.shape)
    for axis, (a, _) in enumerate(over.structured, 1):
        if a in dict(over.steps):
            shaped = _between(shaped, axis, dict(over.steps)[a])
    if over.steps:
        if largest_entry(shaped) >= SAFE:
            raise PlanError(
                "amount-rows-too-large",
                "The integers between the knots of amounts exceed 62 bits.",
                "",
                "Make the plan again with smaller integers or a larger step of the amount.",
                "Nothing was measured.",
            )
        shaped = shaped.astype(np.int64)
    for i, row in enumerate(shaped):
        depends = tuple(axis for axis in range(row.ndim) if (row != row.take([0], axis)).any())
        groups.setdefault(depends, []).append(i)
    parts = []
    for depends, places in groups.items():
        index = tuple(slice(None) if axis in depends else 0 for axis in range(len(over.shape)))
        kept = np.stack([shaped[i][index].ravel() for i in places])
        parts.append(Part(tuple(over.structured[axis][0] for axis in depends), np.array(places), kept))
    return tuple(parts)


def _between(queries: Exact, axis: int, steps: tuple[int, ...]) -> Exact:
    """What multiplies 1 − j and every J_s, of queries of the knots of an amount, as Python integers.

    With two knots entries lie between those of both; else they are three times as large as the largest at most.
    """
    k = len(steps)
    knots, beside = np.split(queries.astype(object), [k + 1], axis=axis)
    first, rises = knots.take([0], axis), np.diff(knots, axis=axis)
    most = np.array(steps, dtype=object).reshape([k if i == axis else 1 for i in range(queries.ndim)])
    if (rises % most).any():
        raise PlanError(
            "amount-rows-not-whole",
            "A query on an amount has no whole number at some step between the knots.",
            "Each difference between two knots is a multiple of the steps between them.",
            "Make the plan again.",
            "Nothing was measured.",
        )
    return np.concatenate([first, first + rises // most, beside], axis=axis)


def named(over: Cells, attributes: NDArray[np.intp], inner: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Names of exchangeable attributes by their positions, (K, s), each row followed by the inner attributes."""
    names = np.array([*over.names, *inner], dtype=object)
    last = np.arange(len(names) - len(inner), len(names))
    rows = np.concatenate([attributes, np.tile(last, (len(attributes), 1))], axis=1)
    return [tuple(row) for row in names[rows].tolist()]


def check_sizes(over: Cells, sizes: Mapping[str, int], steps: Mapping[str, tuple[int, ...]]) -> None:
    """Raise PlanError unless every attribute is one of the domain, with as many values, or steps of an amount."""
    named = (*over.exchangeable, *over.structured)
    own = dict(over.steps)
    if any(sizes.get(name) != n or steps.get(name) != own.get(name) for name, n in named):
        raise other_domain("strategy")


def refuse_amounts(over: Cells) -> None:
    """Raise PlanError for amounts, by a design whose prices are not those of the theorem, or are not known to be."""
    if over.steps:
        raise PlanError(
            "amounts-not-supported",
            "The strategy measures an amount, and its kind of noise does not support amounts.",
            "",
            "Choose a mechanism that supports amounts, or remove the amount.",
            "Nothing was measured.",
        )
