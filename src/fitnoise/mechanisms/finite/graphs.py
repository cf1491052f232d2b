"""Make query graphs: templates, products, any graph, and the graph of any function of a small table.

| results | constructor | distance |
|---|---|---|
| a count of 0 … n − 1 | :func:`path` | |i − j| |
| a ring | :func:`cycle` | the shorter way round |
| tables of u people with m values each | :func:`hamming` | people who differ |
| a sum of u values of 0 … v | :func:`sum_query` | ⌈|i − j|/v⌉ |
| answers of which one step changes one | :func:`product` | the sum of the distances |
| answers of which one step may change all | :func:`bundle` | the largest of the distances |
| any function of a small table | :func:`derive` | counted |
| any graph | :func:`from_edges`, :func:`from_networkx`, :func:`from_sparse` | counted |

The graphs of questions about a domain are in :mod:`fitnoise.kernel.designs.graphs`, with the definition and its source.
No plan has a graph of this module: a design derives the graph of its question again.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, final

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from scipy.sparse import csgraph

from fitnoise.errors import WorkloadError
from fitnoise.kernel.arrays import Floats, Integers
from fitnoise.kernel.checks import checked_integer, describe_value
from fitnoise.kernel.designs.graphs import Box, LabelTuples, QueryGraph, check_edges, complete, read_only, sorted_pairs
from fitnoise.kernel.units import Neighbours

TABLES_LIMIT = 2_000_000
"""The largest number of pairs of a table and a value that :func:`derive` tries."""

# --- structures ----------------------------------------------------------------------------------------------------


@final
@dataclass(frozen=True, eq=False)
class ExplicitGraph:
    """A graph of which only the edges are known.

    Attributes:
        n: The number of results.
        pairs: The edges, (E, 2), i < j, sorted, without repeats.
    """

    n: int
    pairs: Integers

    @cached_property
    def adjacency(self) -> sparse.csr_array[Any, tuple[int, int]]:
        """The adjacency matrix, (n, n), 1 for neighbours."""
        i, j = self.pairs.T
        ones = np.ones(2 * len(i))
        return sparse.csr_array((ones, (np.concatenate([i, j]), np.concatenate([j, i]))), shape=(self.n, self.n))

    def edges(self) -> Integers:
        """Return the edges (:class:`Structure`)."""
        return self.pairs

    def distances_from(self, rows: Integers) -> Floats:
        """Return the distances (:class:`Structure`)."""
        return np.asarray(csgraph.dijkstra(self.adjacency, unweighted=True, indices=rows))

    def components(self) -> Integers:
        """Return the components (:class:`Structure`)."""
        return np.asarray(csgraph.connected_components(self.adjacency, directed=False)[1], dtype=np.int64)


@final
@dataclass(frozen=True)
class Cycle:
    """A ring of n ≥ 3 results."""

    n: int

    def edges(self) -> Integers:
        """Return the edges (:class:`Structure`)."""
        check_edges(self.n)
        i = np.arange(self.n)
        return sorted_pairs(np.stack([i, (i + 1) % self.n], axis=1))

    def distances_from(self, rows: Integers) -> Floats:
        """Return the distances (:class:`Structure`)."""
        differences = np.abs(rows[:, None] - np.arange(self.n)[None, :])
        return np.asarray(np.minimum(differences, self.n - differences), dtype=np.float64)

    def components(self) -> Integers:
        """Return the components (:class:`Structure`)."""
        return np.zeros(self.n, dtype=np.int64)


@final
@dataclass(frozen=True, eq=False)
class Product:
    """Tuples of results of the factors.

    Attributes:
        factors: The graphs of the factors, at least one.
        is_joint: True if one step may change all entries; then d is the largest of the distances (the strong product).
            Otherwise one step changes one entry, and d is their sum (the Cartesian product).
    """

    factors: tuple[QueryGraph, ...]
    is_joint: bool

    @property
    def n(self) -> int:
        """The number of results."""
        return math.prod(self.shape)

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of results of every factor."""
        return tuple(g.n for g in self.factors)

    def edges(self) -> Integers:
        """Return the edges (:class:`Structure`)."""
        index = np.arange(self.n)
        parts = np.unravel_index(index, self.shape)
        sets = [g.edges for g in self.factors]
        if self.is_joint:
            both = [
                np.concatenate([e, e[:, ::-1], np.repeat(np.arange(g.n)[:, None], 2, axis=1)])
                for e, g in zip(sets, self.factors, strict=True)
            ]
            # All pairs in both directions, without the n results that no factor moves.
            check_edges((math.prod(len(e) for e in both) - self.n) // 2)
            lower = upper = np.zeros(1, dtype=np.int64)
            for e, g in zip(both, self.factors, strict=True):
                lower = (lower[:, None] * g.n + e[None, :, 0]).ravel()
                upper = (upper[:, None] * g.n + e[None, :, 1]).ravel()
            keep = lower < upper
            return sorted_pairs(np.stack([lower[keep], upper[keep]], axis=1))
        check_edges(sum(self.n // g.n * len(e) for e, g in zip(sets, self.factors, strict=True)))
        pairs = []
        for k, e in enumerate(sets):
            stride = math.prod(self.shape[k + 1 :])
            rest = index[parts[k] == 0]
            pairs.append(np.stack([(rest[:, None] + stride * e[None, :, c]).ravel() for c in (0, 1)], axis=1))
        return sorted_pairs(np.concatenate(pairs))

    def distances_from(self, rows: Integers) -> Floats:
        """Return the distances (:class:`Structure`)."""
        result = np.zeros((len(rows), self.n))
        here, everywhere = np.unravel_index(rows, self.shape), np.unravel_index(np.arange(self.n), self.shape)
        for g, x, y in zip(self.factors, here, everywhere, strict=True):
            used, inverse = np.unique(x, return_inverse=True)
            # Each result of a factor occurs in many rows; its distances are computed once.
            d = g.distances_from(used)[inverse][:, y]
            result = np.maximum(result, d) if self.is_joint else result + d
        return result

    def components(self) -> Integers:
        """Return the components (:class:`Structure`)."""
        code = np.zeros(self.n, dtype=np.int64)
        for g, x in zip(self.factors, np.unravel_index(np.arange(self.n), self.shape), strict=True):
            of_factor = g.components()
            code = code * (int(of_factor.max()) + 1) + of_factor[x]
        return code


# --- any graph -----------------------------------------------------------------------------------------------------


def from_edges(n: int, edges: ArrayLike, results: Sequence[Hashable] | None = None) -> QueryGraph:
    """Return a graph from its edges.

    Args:
        n: The number of results.
        edges: The positions of neighbours, (E, 2), in any order; repeats count once. May be empty.
        results: The labels; None for 0 … n − 1.

    Raises:
        WorkloadError: n is not a whole number from 1 to RESULTS_LIMIT. An edge is not a pair of two different
            positions from 0 to n − 1. The number of labels is not n, or two labels are equal.

    **Guarantees**
        * The graph depends on the set of edges only, not on their order or direction.
    """
    checked_integer("results", n)
    pairs = np.asarray(edges)
    if pairs.size == 0:
        pairs = np.zeros((0, 2), dtype=np.int64)
    good = pairs.ndim == 2 and pairs.shape[1] == 2 and pairs.dtype.kind in "iu"
    if not good or (pairs.size and (pairs.min() < 0 or pairs.max() >= n or (pairs[:, 0] == pairs[:, 1]).any())):
        raise WorkloadError(
            "edges-not-pairs",
            f"The edges are an array of shape {pairs.shape} with other rows than pairs of different results.",
            f"Each edge is a row of two different whole numbers from 0 to {n - 1}; no result is its own neighbour.",
            "Give one such row for each pair of neighbours.",
            "No graph was made.",
        )
    labels: Sequence[Hashable] = range(n) if results is None else tuple(results)
    if len(labels) != n or len(set(labels)) != n:
        raise WorkloadError(
            "labels-not-distinct",
            f"{len(labels)} labels are given for {n} results, and {len(set(labels))} of them are distinct.",
            "Each result needs a label of its own.",
            f"Give {n} distinct labels.",
            "No graph was made.",
        )
    return QueryGraph(labels, ExplicitGraph(n, read_only(sorted_pairs(pairs.astype(np.int64)))))


class NetworkxGraph(Protocol):
    """The properties of a networkx graph that are used: its nodes, its edges, and its direction."""

    @property
    def nodes(self) -> Iterable[Any]:
        """All nodes."""

    @property
    def edges(self) -> Iterable[Any]:
        """Pairs of nodes."""

    def is_directed(self) -> bool:
        """Return True if edges have a direction."""


def from_networkx(graph: NetworkxGraph) -> QueryGraph:
    """Return a graph from an undirected networkx graph, or from any object with nodes, edges and is_directed().

    Nodes become the labels, in their order. Weights and other attributes are ignored: an edge is one step.

    Raises:
        WorkloadError: The graph is directed, is empty, or has a loop.
    """
    if graph.is_directed():
        raise WorkloadError(
            "graph-directed",
            "The graph is directed.",
            "Neighbours of tables are mutual, so the graph must be undirected.",
            "Give graph.to_undirected().",
            "No graph was made.",
        )
    labels = list(graph.nodes)
    position_of = {label: i for i, label in enumerate(labels)}
    # An edge of a multigraph has a third entry, its key.
    pairs = [(position_of[e[0]], position_of[e[1]]) for e in graph.edges]
    return from_edges(len(labels), pairs, labels)


def from_sparse(
    adjacency: ArrayLike | sparse.sparray | sparse.spmatrix, results: Sequence[Hashable] | None = None
) -> QueryGraph:
    """Return a graph from a symmetric matrix, (n, n): i and j are neighbours where the entry is not 0.

    Args:
        adjacency: The matrix, dense or sparse.
        results: The labels; None for 0 … n − 1.

    Raises:
        WorkloadError: The matrix is not square, has nonzero entries in an asymmetric pattern, or has one on its
            diagonal. Or the number of labels is not n, or two labels are equal.
    """
    a = sparse.coo_array(adjacency if sparse.issparse(adjacency) else np.asarray(adjacency))
    if a.ndim != 2 or a.shape[0] != a.shape[1]:
        raise WorkloadError(
            "adjacency-not-square",
            f"The adjacency matrix has the shape {a.shape}.",
            "An adjacency matrix is square.",
            "Give a square matrix.",
            "No graph was made.",
        )
    # A sparse matrix may store zeros, which are no neighbours.
    nonzero = a.data != 0
    i, j = (np.asarray(x, dtype=np.int64)[nonzero] for x in a.coords)
    n = int(a.shape[0])
    forth, back = np.unique(i * n + j), np.unique(j * n + i)
    if not np.array_equal(forth, back):
        raise WorkloadError(
            "adjacency-not-symmetric",
            "The adjacency matrix is not symmetric.",
            "Neighbours are mutual, so the matrix must be symmetric.",
            "Give A + Aᵀ.",
            "No graph was made.",
        )
    return from_edges(n, np.stack([i, j], axis=1), results)


# --- templates -----------------------------------------------------------------------------------------------------


def path(n: int) -> QueryGraph:
    """Return the graph of results 0 … n − 1 in a row: a count of at most n − 1 people, d(i, j) = |i − j|.

    Raises:
        WorkloadError: n is not a whole number from 1 to RESULTS_LIMIT.
    """
    checked_integer("results", n)
    return QueryGraph(range(n), Box((n,), (1,)))


def cycle(n: int) -> QueryGraph:
    """Return the graph of results 0 … n − 1 in a ring: a count modulo n.

    Raises:
        WorkloadError: n is not a whole number from 3 to RESULTS_LIMIT; use a path for fewer.
    """
    checked_integer("results of a ring", n, 3)
    return QueryGraph(range(n), Cycle(n))


def hamming(people: int, values: int) -> QueryGraph:
    """Return the graph of tables of u = `people` people with one of m = `values` values each.

    d is the number of people who differ.

    Raises:
        WorkloadError: A number is not a whole number of at least 1, or there are more than RESULTS_LIMIT results.

    **Guarantees**
        * The graph is the Cartesian product of u complete graphs; labels are tuples.

    Source: section 4.3 and example 3.
    """
    checked_integer("people", people)
    checked_integer("values of a person", values)
    return product(*[complete(values)] * people)


def sum_query(people: int, largest: int) -> QueryGraph:
    """Return the graph of the sum of u = `people` values of 0 … v = `largest`.

    The results are 0 … uv, and d(i, j) = ⌈|i − j|/v⌉.

    Raises:
        WorkloadError: A number is not a whole number of at least 1, or there are more than RESULTS_LIMIT results.

    **Guarantees**
        * The graph is the one that :func:`derive` finds for the sum; with v = 1 it is the graph of a count.

    Source: section 6.
    """
    checked_integer("people", people)
    checked_integer("largest value", largest)
    return QueryGraph(range(people * largest + 1), Box((people * largest + 1,), (largest,)))


def product(*graphs: QueryGraph) -> QueryGraph:
    """Return the graph of several answers, of which one step changes one; d is the sum of their distances.

    This is the Cartesian product. Answers about different people have it. Labels are tuples, the last answer fastest.

    Raises:
        WorkloadError: No graph is given, or there are more than RESULTS_LIMIT results.
    """
    return _product(graphs, is_joint=False)


def bundle(*graphs: QueryGraph) -> QueryGraph:
    """Return the graph of several answers about the same people, of which one step may change all.

    d is the largest of their distances (strong product). No answer restricts another, and every combination of steps is
    a step. Where answers restrict each other, :func:`derive` finds the true graph.

    Raises:
        WorkloadError: No graph is given, or there are more than RESULTS_LIMIT results.
    """
    return _product(graphs, is_joint=True)


def _product(graphs: tuple[QueryGraph, ...], *, is_joint: bool) -> QueryGraph:
    if not graphs:
        raise WorkloadError(
            "no-graph-given",
            "No graph is given.",
            "A product needs at least one graph.",
            "Give at least one graph.",
            "No graph was made.",
        )
    labels = LabelTuples([g.results for g in graphs])
    boxes = [g.structure for g in graphs if isinstance(g.structure, Box)]
    # The largest of the distances of boxes is the distance of one box; their sum is not.
    if len(boxes) == len(graphs) and (is_joint or len(graphs) == 1):
        shape, steps = sum((b.shape for b in boxes), ()), sum((b.steps for b in boxes), ())
        return QueryGraph(labels, Box(shape, steps))
    return QueryGraph(labels, Product(graphs, is_joint=is_joint))


# --- any query -----------------------------------------------------------------------------------------------------


def derive(
    values: Sequence[Any],
    people: int,
    function: Callable[[tuple[Any, ...]], Hashable],
    adjacency: Neighbours | str = Neighbours.REPLACE_ONE,
) -> QueryGraph:
    """Return the graph of any function of a small table, by trying all tables.

    Tables are taken as multisets. The function gets a tuple of values in the order of `values`, and must not depend on
    the order of its records. This cannot be checked here.

    Args:
        values: The possible values of one record; distinct positions count as distinct values.
        people: The number of records of a table; under add-or-remove-one their largest number.
        function: The query. It must be deterministic, and its answers hashable. Under add-or-remove-one it gets the
            empty table, too.
        adjacency: The neighbour relation. Replace-one: the number of records is public, and one record takes another
            value; the paper uses this relation. Add-or-remove-one: tables of 0 … people records, one more or less. The
            two give different graphs, and different thresholds.

    Raises:
        WorkloadError: There are no values, `people` is not a whole number of at least 1, or the adjacency is unknown.
            Or there are more than TABLES_LIMIT pairs of a table and a value.

    **Guarantees**
        * Results are exactly the answers that occur, sorted if they can be and in order of their appearance otherwise.
        * Edges are exactly the pairs of different answers of neighbouring tables.
    """
    checked_integer("people", people)
    domain = tuple(values)
    try:
        relation = Neighbours(adjacency)
    except ValueError as error:
        choices = " or ".join(f'"{choice}"' for choice in Neighbours)
        raise WorkloadError(
            "unknown-adjacency",
            f"The adjacency is {describe_value(adjacency)}.",
            "",
            f"Choose {choices}.",
            "No graph was made.",
        ) from error
    replace = relation is Neighbours.REPLACE_ONE
    tables = math.comb(len(domain) + people - (1 if replace else 0), people)
    if not domain or tables * len(domain) > TABLES_LIMIT:
        raise WorkloadError(
            "too-many-tables-to-derive",
            f"{tables} tables are those of {'' if replace else 'up to '}{people} records of {len(domain)} values.",
            f"A graph can be derived from at least 1 value and at most {TABLES_LIMIT} pairs of a table and a value.",
            "Derive the graph of a smaller table of the same shape, or use a template.",
            "No graph was made.",
        )
    answers: dict[tuple[int, ...], Hashable] = {}
    for size in [people] if replace else range(people + 1):
        for table in itertools.combinations_with_replacement(range(len(domain)), size):
            answers[table] = function(tuple(domain[k] for k in table))
    # Neighbours share a table `rest`: both are `rest` with one record more, or one of them is `rest` itself.
    pairs: set[tuple[Hashable, Hashable]] = set()
    for size in [people - 1] if replace else range(people):
        for rest in itertools.combinations_with_replacement(range(len(domain)), size):
            outcomes = {answers[tuple(sorted((*rest, k)))] for k in range(len(domain))}
            pairs.update(itertools.combinations(outcomes, 2) if replace else ((answers[rest], x) for x in outcomes))
    labels = _in_order(answers.values())
    position_of = {label: i for i, label in enumerate(labels)}
    edges = [(position_of[x], position_of[y]) for x, y in pairs if x != y]
    return from_edges(len(labels), edges, labels)


def _in_order(answers: Iterable[Hashable]) -> list[Hashable]:
    seen: list[Any] = list(dict.fromkeys(answers))
    try:
        return sorted(seen)
    except TypeError:
        return seen
