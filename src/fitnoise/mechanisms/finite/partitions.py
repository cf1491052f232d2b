"""Cells: an equitable partition of results, so that one number stands for all results of a cell.

**Statement.** Let Φ be a symmetric matrix whose entries depend on distances. Let the results be split into cells: an
*equitable* partition, in which all results of a cell have equally many results of every cell at every distance. With

    B_CD = Σ_{j in D} Φ_ij    for any i in C

and a right-hand side b that is constant on cells: if B w = b, then z_i = w_{cell(i)} solves Φ z = b. If Φ z = b, the
averages of z over the cells solve B w = b. So a non-negative z exists if and only if a non-negative w does, for a
singular or regular Φ. Orbits of symmetries of the graph are such cells, and refinement finds coarser ones.

**Proof** for the averages: |C| B_CD = |D| B_DC by symmetry, hence Σ_{i in C} (Φ z)_i / |C| = Σ_D B_CD · average of z
over D.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from fitnoise.kernel.arrays import Integers
from fitnoise.kernel.designs.graphs import Box, Complete, QueryGraph, Simplex
from fitnoise.mechanisms.finite.graphs import Cycle

REFINED_LIMIT = 2500
"""Most results for which refinement finds cells."""

ENTRIES_LIMIT = 40_000_000
"""Most distances from representatives to results in memory."""


@final
@dataclass(frozen=True, eq=False)
class GraphPartition:
    """An equitable partition.

    Attributes:
        cell_of: The cell of every result, (n,), counted from 0 in the order of first results.
        first_results: The first result of every cell, (m,).
    """

    cell_of: Integers
    first_results: Integers

    @property
    def m(self) -> int:
        """The number of cells."""
        return len(self.first_results)


def cells(graph: QueryGraph, colours: NDArray[Any] | None = None) -> GraphPartition:
    """Return an equitable partition, as coarse as this function can find.

    Args:
        graph: The graph.
        colours: Integers, (n,): results of different colour are in different cells. None for one colour.

    **Guarantees**
        * The partition is equitable for the distances of the graph, and at least as fine as the colours, for any size.
        * The function returns the same cells for the same graph. With no colours, a graph whose structure is a ring or
          a complete graph is one cell.
        * Above `REFINED_LIMIT` results, a graph with colours or without a structure has one cell for each result.
    """
    n, structure = graph.n, graph.structure
    if colours is None and isinstance(structure, Cycle | Complete):
        return _numbered(np.zeros(n, dtype=np.int64))
    if colours is None and isinstance(structure, Simplex):
        return _numbered(_rows(np.sort(structure.bins, axis=1)))
    if colours is None and isinstance(structure, Box):
        return _numbered(_folded(structure))
    # Every result is a cell of its own: refinement sorts n² distances in each round.
    if n > REFINED_LIMIT:
        return _numbered(np.arange(n))
    return _numbered(_refined(graph, np.zeros(n, dtype=np.int64) if colours is None else _rows(colours[:, None])))


def _folded(box: Box) -> Integers:
    """Return orbits under reflections of all axes and exchanges of axes of equal size and step."""
    kinds = list(zip(box.shape, box.steps, strict=True))
    folded = [
        np.minimum(x, s - 1 - x) for x, s in zip(np.unravel_index(np.arange(box.n), box.shape), box.shape, strict=True)
    ]
    code = np.zeros(box.n, dtype=np.int64)
    for kind in dict.fromkeys(kinds):
        # Sorting the folded coordinates identifies results that exchanges of equal axes map to each other.
        coordinates = np.sort(np.stack([x for x, k in zip(folded, kinds, strict=True) if k == kind]), axis=0)
        for x in coordinates:
            code = code * kind[0] + x
    return code


def _refined(graph: QueryGraph, colour: Integers) -> Integers:
    """Split cells by their distances to cells until no cell changes."""
    d = graph.distances()
    # No finite distance reaches n, so unreachable results get a distance of their own.
    steps = np.where(np.isfinite(d), d, graph.n).astype(np.int64)
    count = int(colour.max()) + 1
    while True:
        # The sorted pairs (distance, cell) of a result: equal rows see equally many results of each cell.
        seen = np.sort(steps * count + colour[None, :], axis=1)
        colour = _rows(np.column_stack([colour, seen]))
        # Refinement only splits, so an equal number of cells means equal cells.
        if int(colour.max()) + 1 == count:
            return colour
        count = int(colour.max()) + 1


def _rows(matrix: NDArray[Any]) -> Integers:
    """Return equal numbers for equal rows, from 0."""
    return np.asarray(np.unique(matrix, axis=0, return_inverse=True)[1], dtype=np.int64).ravel()


def _numbered(code: Integers) -> GraphPartition:
    _, first_results, inverse = np.unique(code, return_index=True, return_inverse=True)
    order = np.argsort(first_results)
    rank = np.empty_like(order)
    # Numbers follow the first results, so that one partition has one numbering.
    rank[order] = np.arange(len(order))
    return GraphPartition(rank[inverse.ravel()], first_results[order])
