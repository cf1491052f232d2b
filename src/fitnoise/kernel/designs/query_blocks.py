"""Split queries by the attributes they depend on, and apply them to counts over these alone. Part of the trust kernel.

**Amounts.** An amount is low + j · step, j = 0 … K. It lies between two of its knots t_0 < … < t_k. These are the ends
of the range and, if the amount has ceilings, the ceilings between them. There are K_s steps from knot s − 1 to knot s.
Of them j has passed J_s = min(max(j − K_1 − … − K_{s−1}, 0), K_s). The record adds 1 − j to the count of knot 0 and J_s
to that of each other knot s. All of these counts together are one record, as the cells of any attribute are.

A query has the value b_s at knot s. It asks for the value on the straight line between two knots, b_0 + Σ_s (b_s −
b_{s−1}) J_s/K_s. K_s must divide b_s − b_{s−1}. Then the value is the integer b_0 (1 − j) + Σ_s (b_0 + (b_s −
b_{s−1})/K_s) J_s. With several amounts, the same applies along each amount.

*Theorem.* Consider the answer of a query for one record. In each amount separately it is affine from each knot to the
next, with the values at the knots. Every price is a maximum over the records of a unit, and over their replacements.
The maximum is taken of a convex function of the sum of their answers. As a function of one amount of one record, with
all else fixed, it is therefore convex from each knot to the next. So nowhere between two knots is it larger than at one
of them. Move one amount after the other to the adjacent knot of no lower cost: the result is a unit whose amounts are
all at knots. Every knot is a cell. Hence prices over cells hold for every amount of the range, and they are attained
where they are attained for cells. ∎

The theorem covers the largest squared distance of one record, of any number of records of one unit, and of replaced
records. It also covers sums by cell over several releases. It covers patterns only while these are in other attributes
than amounts.

An amount may share a joint axis with cuts of its column (`domain.JointAxis`). A record of one cell of the cuts
then lies between the two steps of this cell. The axis has knots for each cell of the cuts, one after the other, and the
theorem holds for each.

The range of an amount may depend on another attribute (`codings.Steps.classes`). Then j counts steps in the range of
the record's cell there, with one K in all cells. The multipliers of j are queries of the joint cells of both
attributes. So the theorem stays valid: in each cell of that attribute a record lies between the two ends of its range.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from fitnoise.errors import PlanError
from fitnoise.kernel.arrays import Exact, Indices
from fitnoise.kernel.designs._base import CellStructure

INT64_SAFE_LIMIT = 2**62
"""The bound below which an int64 can be negated, added once and compared without overflow."""


def largest_entry(a: Exact) -> int:
    """Return max |a_ij|, exact for every integer type (numpy's own absolute value of the least int64 is negative)."""
    return max(int(a.max()), -int(a.min()))


def exact_matmul(a: Exact, b: Exact) -> Exact:
    """Return A b over the integers, (m, k) times (k, n), as (m, n).

    The result is int64 if no entry and no partial sum can reach 2⁶², and Python integers otherwise.
    """
    # An empty array has no largest entry.
    if a.size == 0 or b.size == 0:
        return np.zeros((a.shape[0], b.shape[1]), dtype=np.int64)
    largest = max(1, largest_entry(a)) * max(1, largest_entry(b)) * a.shape[1]
    # No partial sum is rounded below 2⁵³, in any order of summation: doubles are exact here, and many times faster.
    if largest < 2**50:
        return np.asarray(np.rint(a.astype(np.float64) @ b.astype(np.float64)).astype(np.int64))
    if largest < INT64_SAFE_LIMIT:
        return np.asarray(a.astype(np.int64) @ b.astype(np.int64))
    return np.asarray(a.astype(object) @ b.astype(object))


def multiply(a: Exact, b: Exact, dtype: np.dtype[Any]) -> Exact:
    """Return A b in the ring of `dtype`: Python integers for objects, and int64 modulo 2⁶⁴ for any other type."""
    if dtype.kind == "O":
        return exact_matmul(a, b).astype(object)
    return np.asarray(a.astype(np.int64) @ b.astype(np.int64))


@final
@dataclass(frozen=True)
class QueryBlock:
    """Queries that depend on the same structured attributes, and only on them.

    Attributes:
        inner: The names of these attributes.
        places: The indices of these queries among the rows that `split` was given, in increasing order.
        queries: Integers, (len(places), joint cells of the inner attributes): the multipliers of the counts. Along an
            amount, these are the multipliers of 1 − j and of every J_s.
    """

    inner: tuple[str, ...]
    places: Indices
    queries: Exact


def split(queries: Exact, structure: CellStructure) -> tuple[QueryBlock, ...]:
    """Split queries of the joint cells of structured attributes, (m, n_o), by the attributes on which they depend.

    Only the margins that the queries show are then counted. Every query is in one block.

    Raises:
        PlanError: The queries have no integers between the knots of an amount, or multipliers of counts are too large.
    """
    groups: dict[tuple[int, ...], list[int]] = {}
    shaped = queries.reshape(-1, *structure.shape)
    for axis, (a, _) in enumerate(structure.structured, 1):
        if a in dict(structure.steps):
            shaped = _knot_factors(shaped, axis, dict(structure.steps)[a])
    if structure.steps:
        # Larger integers would overflow in the conversion below, and give wrong queries.
        if largest_entry(shaped) >= INT64_SAFE_LIMIT:
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
        # A query is constant along an axis on which it does not depend, so position 0 stands for all.
        index = tuple(slice(None) if axis in depends else 0 for axis in range(len(structure.shape)))
        block = np.stack([shaped[i][index].ravel() for i in places])
        parts.append(QueryBlock(tuple(structure.structured[axis][0] for axis in depends), np.array(places), block))
    return tuple(parts)


def _knot_factors(queries: Exact, axis: int, steps: tuple[int, ...]) -> Exact:
    """Return the multipliers of 1 − j and of every J_s as Python integers, for queries of the knots of an amount.

    A cell that is 0 steps from the cell before it is the first of an amount, or has none.

    With two knots, entries lie between those of both. With more, they are at most three times as large as the largest.

    Raises:
        PlanError: A query has no integer at some step between two knots.
    """
    ordered = np.moveaxis(queries.astype(object), axis, -1)
    # Python's integers: the difference of two entries of 62 bits, plus a third, may exceed 64 bits.
    gaps = np.array([0, *steps, *[0] * (ordered.shape[-1] - len(steps) - 1)], dtype=object)
    first_cells = np.maximum.accumulate(np.where(gaps == 0, np.arange(len(gaps)), 0))
    rises = np.where(gaps == 0, 0, np.diff(ordered, axis=-1, prepend=0))
    # A rise that is not a multiple of the steps would give fractions at amounts between the knots.
    if (rises % np.maximum(gaps, 1)).any():
        raise PlanError(
            "amount-rows-not-whole",
            "A query on an amount has no whole number at some step between the knots.",
            "Each difference between two knots is a multiple of the steps between them.",
            "Make the plan again.",
            "Nothing was measured.",
        )
    return np.moveaxis(ordered[..., first_cells] + rises // np.maximum(gaps, 1), -1, axis)


def attribute_names(
    structure: CellStructure, attributes: NDArray[np.intp], inner: tuple[str, ...]
) -> list[tuple[str, ...]]:
    """Return K tuples of names: those of a row of positions of exchangeable attributes, (K, s), then the inner ones."""
    names = np.array([*structure.names, *inner], dtype=object)
    last = np.arange(len(names) - len(inner), len(names))
    rows = np.concatenate([attributes, np.tile(last, (len(attributes), 1))], axis=1)
    return [tuple(row) for row in names[rows].tolist()]


def refuse_amounts(structure: CellStructure) -> None:
    """Raise PlanError for amounts; designs for whose prices the theorem is not proven call this function."""
    if structure.steps:
        raise PlanError(
            "amounts-not-supported",
            "The strategy measures an amount, and its kind of noise does not support amounts.",
            "",
            "Choose a mechanism that supports amounts, or remove the amount.",
            "Nothing was measured.",
        )
