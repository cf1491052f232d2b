"""Hierarchies of sums along an axis."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fitnoise.kernel.arrays import Floats, Integers
from fitnoise.kernel.checks import checked_integer


def height(n: int, branching: int) -> int:
    """Return ⌈log_b n⌉, the levels of a tree of b = `branching` children over n cells below its root; exact.

    Raises:
        WorkloadError: n is not an integer of at least 1, or the branching is not an integer of at least 2.
    """
    checked_integer("cells", n)
    checked_integer("children of a node", branching, 2)
    h = 0
    # A logarithm could be rounded to the wrong side of an integer.
    while branching**h < n:
        h += 1
    return h


def hierarchy(n: int, branching: int = 2) -> Integers:
    """Return H_n: all nodes of the tree of b = `branching` children over n cells, from root to cells, (nodes, n).

    A node is the sum of the cells below it; a node of level k above the cells has b^k of them. If n is not a power of
    b, the last node of a level can be smaller. A node with a single child is a row on both levels.

    Raises:
        WorkloadError: n is not an integer of at least 1, or the branching is not an integer of at least 2.

    **Guarantees**
        * Every cell is in exactly one node of every level, so the sensitivity is height(n, b) + 1.
        * For n a power of 2 and b = 2 it has 2n − 1 rows and is the paper's H_n.

    **Source.** Section 6, Figure 1(c); other branchings: Qardaji, Yang, Li, PVLDB 6(14), 2013.
    """
    return np.concatenate([level_of(n, branching, k) for k in range(height(n, branching), -1, -1)])


def level_of(n: int, branching: int, k: int) -> Integers:
    """Return the nodes k levels above the cells, (nodes, n)."""
    nodes = np.arange(n) // branching**k
    return np.asarray(np.arange(nodes[-1] + 1)[:, None] == nodes, dtype=np.int64)


def covariances(n: int, branching: int) -> Iterator[Floats]:
    """Yield (HᵀH)⁻¹ (n, n) of the hierarchy without its root, then with it; for n = 1 once, with it.

    A node is one more row, 1 on its cells: with c = C 1 there, C becomes C − c cᵀ/(1 + 1ᵀc). In the order from the
    cells upwards, C couples no cells of different nodes. So the work of a level is the number of pairs of cells in its
    nodes.
    """
    # The cells of level 0, each a row of its own.
    c = np.eye(n)
    for k in range(1, height(n, branching) + 1):
        size = branching**k
        # The last node is the root, which the first covariance lacks.
        if size >= n:
            yield c.copy()
        for start in range(0, n, size):
            block = c[start : start + size, start : start + size]
            towards = block.sum(axis=1)
            # A view: this updates c.
            block -= np.multiply.outer(towards, towards / (1 + towards.sum()))
    yield c
