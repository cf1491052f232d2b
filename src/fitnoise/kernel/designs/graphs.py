"""Define query graphs: for each result of a query, the results into which one person can turn it.

A query with finitely many results has a *query graph*. Its nodes are the results. Two results are joined if some two
neighbouring tables have them as answers. Let d(i, j) be the number of steps between i and j. A mechanism is ε-private
iff P(o | i) ≤ e^(ε d(i, j)) P(o | j) for all results i, j and all outputs o. The mechanism needs no other knowledge of
the query.

Two results in different components have d = ∞. No chain of single steps leads from one to the other, so nothing is
promised about distinguishing them. The component of a table is public, for every mechanism. If it must not be, the
publisher chose the wrong neighbours.

| results | constructor | distance |
|---|---|---|
| a count of 0 … n − 1 | :func:`path` | |i − j| |
| a ring | :func:`cycle` | the shorter way round |
| any result may become any other | :func:`complete` | 1 |
| tables of u people with m values each | :func:`hamming` | people who differ |
| a sum of u values of 0 … v | :func:`sum_query` | ⌈|i − j|/v⌉ |
| counts, none of which restricts another | :func:`independent_counts` | the largest |i_k − j_k| |
| counts, of which one person is in one at most | :func:`disjoint_counts` | people who moved |
| answers of which one step changes one | :func:`product` | the sum of the distances |
| answers of which one step may change all | :func:`bundle` | the largest of the distances |
| any function of a small table | :func:`derive` | counted |
| any graph | :func:`from_edges`, :func:`from_networkx`, :func:`from_sparse` | counted |

**Source.** ElSalamouny, Chatzikokolakis, Palamidessi: A differentially private mechanism of optimal utility for a
region of priors, POST 2013, section 2. Sections below are of that paper. It has replace-one neighbours.
"""

from __future__ import annotations

import itertools
import math
import reprlib
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, TypeVar, final, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.sparse import csgraph

from fitnoise.errors import WorkloadError
from fitnoise.kernel.arguments import describe_value
from fitnoise.kernel.arrays import Floats, Integers
from fitnoise.kernel.checks import checked_integer
from fitnoise.kernel.designs._base import unknown_result
from fitnoise.kernel.units import Neighbours

Scalar = TypeVar("Scalar", bound=np.generic)

DISTANCES_LIMIT = 10_000
"""The largest number of results for which all distances are computed (0.8 GB at the limit)."""

EDGES_LIMIT = 50_000_000
"""The largest number of edges in a list (0.8 GB at the limit)."""

RESULTS_LIMIT = 2**31 - 1
"""The largest number of results of a graph."""

TABLES_LIMIT = 2_000_000
"""The largest number of pairs of a table and a value that :func:`derive` tries."""

# --- labels --------------------------------------------------------------------------------------------------------


@final
@dataclass(frozen=True, eq=False, init=False)
class LabelTuples(Sequence[Hashable]):
    """A sequence of all tuples of one label of each factor, the last factor fastest; tuples are made at access.

    Attributes:
        factors: The labels of each factor, distinct within a factor.
        shape: The number of labels of each factor.

    **Guarantees**
        * For labels = LabelTuples(…), labels[i] and labels.index(label) are inverse to each other.
    """

    factors: tuple[Sequence[Hashable], ...]
    shape: tuple[int, ...]

    def __init__(self, factors: Sequence[Sequence[Hashable]]) -> None:
        object.__setattr__(self, "factors", tuple(factors))
        object.__setattr__(self, "shape", tuple(len(f) for f in self.factors))

    def __len__(self) -> int:
        return math.prod(self.shape)

    @overload
    def __getitem__(self, index: int) -> Hashable: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Hashable, ...]: ...
    def __getitem__(self, index: int | slice) -> Hashable:
        if isinstance(index, slice):
            return tuple(self[i] for i in range(*index.indices(len(self))))
        i = range(len(self))[index]
        label = []
        for f in reversed(self.factors):
            i, k = divmod(i, len(f))
            label.append(f[k])
        return tuple(reversed(label))

    def __iter__(self) -> Iterator[Hashable]:
        return itertools.product(*self.factors)

    def __contains__(self, label: object) -> bool:
        if not isinstance(label, tuple) or len(label) != len(self.factors):
            return False
        return all(x in f for x, f in zip(label, self.factors, strict=True))

    def index(self, label: object, start: int = 0, stop: int | None = None) -> int:
        """Return the position of a label.

        Raises:
            ValueError: The label is not in the grid, or not between start and stop.
        """
        if not isinstance(label, tuple) or label not in self:
            raise ValueError(f"{label!r} is no label of this grid")
        position = 0
        for x, f in zip(label, self.factors, strict=True):
            position = position * len(f) + f.index(x)
        if position not in range(*slice(start, stop).indices(len(self))):
            raise ValueError(f"{label!r} is not between {start} and {stop}")
        return position


# --- structures ----------------------------------------------------------------------------------------------------


class Structure(Protocol):
    """The knowledge about a graph beyond its edges; solvers choose their method by the structure."""

    @property
    def n(self) -> int:
        """The number of results."""

    def edges(self) -> Integers:
        """Return pairs i < j of neighbours, (E, 2), sorted."""

    def distances_from(self, rows: Integers) -> Floats:
        """Return the steps from each of the rows to every result, (len(rows), n); ∞ without a path."""

    def components(self) -> Integers:
        """Return the component of every result, (n,), counted from 0 in the order of their first results."""


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
class Box:
    """Points of a box of integers, with d(x, y) = max_k ⌈|x_k − y_k| / steps_k⌉.

    One axis with step 1 is a path, and one axis with step v a sum. Several axes are several queries answered together.

    Attributes:
        shape: The number of points of every axis.
        steps: The largest change of each coordinate by one person, at least 1.
    """

    shape: tuple[int, ...]
    steps: tuple[int, ...]

    @property
    def n(self) -> int:
        """The number of results."""
        return math.prod(self.shape)

    def edges(self) -> Integers:
        """Return the edges (:class:`Structure`)."""
        # Of two opposite moves one is enough: m > 0 in lexicographic order.
        reach = [min(v, s - 1) for v, s in zip(self.steps, self.shape, strict=True)]
        moves = [m for m in itertools.product(*(range(-r, r + 1) for r in reach)) if m > (0,) * len(reach)]
        pairs_of = [math.prod(s - abs(m) for s, m in zip(self.shape, move, strict=True)) for move in moves]
        _check_edges(sum(pairs_of))
        index = np.arange(self.n).reshape(self.shape)
        pairs = []
        for move in moves:
            low = tuple(slice(max(-m, 0), s - max(m, 0)) for m, s in zip(move, self.shape, strict=True))
            high = tuple(slice(max(m, 0), s - max(-m, 0)) for m, s in zip(move, self.shape, strict=True))
            pairs.append(np.stack([index[low].ravel(), index[high].ravel()], axis=1))
        return _sorted_pairs(np.concatenate(pairs)) if pairs else np.zeros((0, 2), dtype=np.int64)

    def distances_from(self, rows: Integers) -> Floats:
        """Return the distances (:class:`Structure`)."""
        result = np.zeros((len(rows), self.n))
        here, everywhere = np.unravel_index(rows, self.shape), np.unravel_index(np.arange(self.n), self.shape)
        for x, y, v in zip(here, everywhere, self.steps, strict=True):
            np.maximum(result, -(-np.abs(x[:, None] - y[None, :]) // v), out=result)
        return result

    def components(self) -> Integers:
        """Return the components (:class:`Structure`)."""
        return np.zeros(self.n, dtype=np.int64)


@final
@dataclass(frozen=True)
class Cycle:
    """A ring of n ≥ 3 results."""

    n: int

    def edges(self) -> Integers:
        """Return the edges (:class:`Structure`)."""
        _check_edges(self.n)
        i = np.arange(self.n)
        return _sorted_pairs(np.stack([i, (i + 1) % self.n], axis=1))

    def distances_from(self, rows: Integers) -> Floats:
        """Return the distances (:class:`Structure`)."""
        differences = np.abs(rows[:, None] - np.arange(self.n)[None, :])
        return np.asarray(np.minimum(differences, self.n - differences), dtype=np.float64)

    def components(self) -> Integers:
        """Return the components (:class:`Structure`)."""
        return np.zeros(self.n, dtype=np.int64)


@final
@dataclass(frozen=True)
class Complete:
    """A complete graph of n results, all neighbours of each other."""

    n: int

    def edges(self) -> Integers:
        """Return the edges (:class:`Structure`)."""
        _check_edges(self.n * (self.n - 1) // 2)
        return np.stack(np.triu_indices(self.n, 1), axis=1).astype(np.int64)

    def distances_from(self, rows: Integers) -> Floats:
        """Return the distances (:class:`Structure`)."""
        return np.asarray(rows[:, None] != np.arange(self.n)[None, :], dtype=np.float64)

    def components(self) -> Integers:
        """Return the components (:class:`Structure`)."""
        return np.zeros(self.n, dtype=np.int64)


@final
@dataclass(frozen=True, eq=False)
class Simplex:
    """Distributions of people over bins, with d(x, y) = ½ Σ_k |x_k − y_k|, the people who changed their bin.

    Attributes:
        bins: The people of every bin, (n, K), K ≥ 2: all rows with one sum, in lexicographic order.
    """

    bins: Integers

    @property
    def n(self) -> int:
        """The number of results."""
        return len(self.bins)

    def edges(self) -> Integers:
        """Return the edges (:class:`Structure`)."""
        people, k = int(self.bins[0].sum()), self.bins.shape[1]
        # An edge is two bins between which one person moves, and a distribution of the other people.
        _check_edges(math.comb(k, 2) * math.comb(people + k - 2, k - 1))
        base = people + 1
        if base**k >= 2**63:
            raise WorkloadError(
                "too-many-bins",
                f"{k} bins of {people} people have too many edges to number in 64 bits.",
                "",
                "Ask for fewer bins.",
                "No edges were computed.",
            )
        weights = base ** np.arange(k - 1, -1, -1, dtype=np.int64)
        codes = self.bins @ weights  # Rows are in lexicographic order, so codes increase.
        pairs = []
        for a, b in itertools.combinations(range(k), 2):
            i = np.flatnonzero(self.bins[:, b])
            pairs.append(np.stack([i, np.searchsorted(codes, codes[i] + weights[a] - weights[b])], axis=1))
        return _sorted_pairs(np.concatenate(pairs))

    def distances_from(self, rows: Integers) -> Floats:
        """Return the distances (:class:`Structure`)."""
        total = np.zeros((len(rows), self.n))
        for column in self.bins.T:
            total += np.abs(column[rows][:, None] - column[None, :])
        return total / 2

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
            _check_edges((math.prod(len(e) for e in both) - self.n) // 2)
            lower = upper = np.zeros(1, dtype=np.int64)
            for e, g in zip(both, self.factors, strict=True):
                lower = (lower[:, None] * g.n + e[None, :, 0]).ravel()
                upper = (upper[:, None] * g.n + e[None, :, 1]).ravel()
            keep = lower < upper
            return _sorted_pairs(np.stack([lower[keep], upper[keep]], axis=1))
        _check_edges(sum(self.n // g.n * len(e) for e, g in zip(sets, self.factors, strict=True)))
        pairs = []
        for k, e in enumerate(sets):
            stride = math.prod(self.shape[k + 1 :])
            rest = index[parts[k] == 0]
            pairs.append(np.stack([(rest[:, None] + stride * e[None, :, c]).ravel() for c in (0, 1)], axis=1))
        return _sorted_pairs(np.concatenate(pairs))

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


# --- the graph -----------------------------------------------------------------------------------------------------


@final
@dataclass(frozen=True, eq=False)
class QueryGraph:
    """The results of a query, and the pairs of them that one person can turn into each other.

    The constructors of this module make graphs; see the table at its top.

    Attributes:
        results: The n labels, distinct; result i of all arrays is results[i].
        structure: The knowledge about the graph.

    **Guarantees**
        * The graph is immutable: its arrays are read-only.
        * Edges and distances depend on the structure alone, and agree: d(i, j) = 1 exactly for the edges.
    """

    results: Sequence[Hashable]
    structure: Structure

    def __post_init__(self) -> None:
        if not 1 <= self.structure.n <= RESULTS_LIMIT:
            raise WorkloadError(
                "results-out-of-range",
                f"The query graph has {self.structure.n} results.",
                f"A query graph needs from 1 to {RESULTS_LIMIT} results.",
                "Ask a coarser query.",
                "No graph was made.",
            )
        if len(self.results) != self.structure.n:
            raise WorkloadError(
                "labels-misfit-results",
                f"{len(self.results)} labels are given for {self.structure.n} results.",
                "Each result needs one label.",
                "Give one label for each result.",
                "No graph was made.",
            )

    @property
    def n(self) -> int:
        """The number of results."""
        return self.structure.n

    @cached_property
    def edges(self) -> Integers:
        """The pairs i < j of neighbours, (E, 2), in lexicographic order, without repeats; computed at first access.

        Raises:
            WorkloadError: There are more than EDGES_LIMIT edges, or disjoint counts have too many bins to number their
                edges in 64 bits.
        """
        return _read_only(self.structure.edges())

    def distances(self) -> Floats:
        """Return the steps between all results, (n, n), as floats; numpy.inf between components.

        e^(−ε d) is then 0 between components.

        Raises:
            WorkloadError: n is above DISTANCES_LIMIT.

        **Guarantees**
            * The distances are integers or ∞, symmetric, 0 on the diagonal only, and d(i, k) ≤ d(i, j) + d(j, k).
        """
        return self._distances

    @cached_property
    def _distances(self) -> Floats:
        if self.n > DISTANCES_LIMIT:
            raise WorkloadError(
                "too-many-distances",
                f"The query graph has {self.n} results, and all distances between them are requested.",
                f"All distances are available up to {DISTANCES_LIMIT} results.",
                "Compute some rows with distances_from.",
                "Nothing was computed.",
            )
        return _read_only(self.structure.distances_from(np.arange(self.n)))

    def distances_from(self, rows: ArrayLike) -> Floats:
        """Return the steps from some results to all, (len(rows), n); numpy.inf between components.

        Args:
            rows: The positions of results, not labels.

        Raises:
            WorkloadError: A position is not in 0 … n − 1, or the argument is not a list of whole numbers.
        """
        i = np.asarray(rows)
        if i.ndim != 1 or (i.size and (i.dtype.kind not in "iu" or i.min() < 0 or i.max() >= self.n)):
            raise WorkloadError(
                "positions-out-of-range",
                f"The positions are {reprlib.repr(rows)}.",
                f"Positions of results are whole numbers from 0 to {self.n - 1}, in a list.",
                "Give positions of results of this graph.",
                "Nothing was computed.",
            )
        return self.structure.distances_from(i.astype(np.int64))

    def components(self) -> Integers:
        """Return the component of every result, (n,), counted from 0.

        A change between components is not protected: no chain of single steps makes it.
        """
        return self.structure.components()

    @property
    def connected(self) -> bool:
        """True if there is one component only."""
        return not self.components().any()

    def index(self, result: Hashable) -> int:
        """Return the position of a label.

        Raises:
            WorkloadError: No result has this label.
        """
        try:
            # Ranges and `LabelTuples` compute a position, and need no table of labels.
            return self._positions[result] if isinstance(self.results, tuple) else self.results.index(result)
        except (KeyError, ValueError, TypeError) as error:
            raise unknown_result("Nothing was computed.") from error

    @cached_property
    def _positions(self) -> dict[Hashable, int]:
        return {label: i for i, label in enumerate(self.results)}

    def __repr__(self) -> str:
        return f"QueryGraph of {self.n} results ({type(self.structure).__name__})"


# --- any graph -----------------------------------------------------------------------------------------------------


def from_edges(n: int, edges: ArrayLike, results: Sequence[Hashable] | None = None) -> QueryGraph:
    """Return a graph from its edges.

    Args:
        n: The number of results.
        edges: The positions of neighbours, (E, 2), in any order; repeats count once. May be empty.
        results: The labels; None for 0 … n − 1.

    Raises:
        WorkloadError: n is not a whole number from 1 to RESULTS_LIMIT. An edge is not a pair of two different whole
            numbers from 0 to n − 1. The number of labels is not n, or two labels are equal.

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
    return QueryGraph(labels, ExplicitGraph(n, _read_only(_sorted_pairs(pairs.astype(np.int64)))))


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


def complete(n: int) -> QueryGraph:
    """Return the graph of n results that are all neighbours: one person can turn any into any other, d = 1.

    Median, mode, maximum and range of a table have this graph under replace-one neighbours.

    Raises:
        WorkloadError: n is not a whole number from 1 to RESULTS_LIMIT.
    """
    checked_integer("results", n)
    return QueryGraph(range(n), Complete(n))


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


def independent_counts(*people: int) -> QueryGraph:
    """Return the graph of several counts, none of which restricts another.

    Count k is 0 … people_k, and d(i, j) = max_k |i_k − j_k|. One person may be in all counts, so that one step may
    change all. For two counts it is the graph of a chess king.

    Raises:
        WorkloadError: No number is given, or one is not a whole number of at least 1. Or there are more than
            RESULTS_LIMIT results.

    Source: section 6.
    """
    if not people:
        raise WorkloadError(
            "no-counts-given",
            "No count is given.",
            "",
            "Give the largest value of each count.",
            "No graph was made.",
        )
    for u in people:
        checked_integer("people", u)
    return bundle(*(path(u + 1) for u in people))


def disjoint_counts(people: int, counts: int) -> QueryGraph:
    """Return the graph of several counts of u = `people` people, each in one of them at most: i_1 + … + i_k ≤ u.

    d(i, j) is the number of people who must move, with the uncounted as one bin more. Two counts give a triangular
    lattice. The graph holds for replace-one neighbours; for others see :func:`derive`.

    Raises:
        WorkloadError: A number is not a whole number of at least 1, or there are too many results.
    """
    checked_integer("people", people)
    checked_integer("counts", counts)
    n = math.comb(people + counts, counts)
    # The bins of all results, uncounted people included, are that many numbers.
    if n * (counts + 1) > EDGES_LIMIT:
        raise WorkloadError(
            "too-many-disjoint-counts",
            f"{counts} disjoint counts of {people} people have {n} results, which are too many.",
            "",
            "Ask for fewer counts, or state fewer people.",
            "No graph was made.",
        )
    columns = np.zeros((1, 0), dtype=np.int64)
    for _ in range(counts):  # Append a column with 0 … the uncounted people, row by row.
        uncounted = people - columns.sum(axis=1)
        rows = np.repeat(np.arange(len(columns)), uncounted + 1)
        starts = np.repeat(np.cumsum(uncounted + 1) - (uncounted + 1), uncounted + 1)
        columns = np.column_stack([columns[rows], np.arange(len(rows)) - starts])
    bins = np.column_stack([columns, people - columns.sum(axis=1)])
    return QueryGraph(tuple(map(tuple, columns.tolist())), Simplex(_read_only(bins)))


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
            f"{people} records of {len(domain)} values make {tables} tables.",
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


# --- helpers -------------------------------------------------------------------------------------------------------


def _in_order(answers: Iterable[Hashable]) -> list[Hashable]:
    seen: list[Any] = list(dict.fromkeys(answers))
    try:
        return sorted(seen)
    except TypeError:
        return seen


def _sorted_pairs(pairs: Integers) -> Integers:
    """Return rows (min, max) in lexicographic order without repeats."""
    if not len(pairs):
        return pairs
    low, high = pairs.min(axis=1), pairs.max(axis=1)
    width = int(high.max()) + 1
    # A graph has fewer than 2³¹ results, so the code of a pair fits in 62 bits.
    codes = np.unique(low * width + high)
    return np.stack(np.divmod(codes, width), axis=1)


def _check_edges(count: int) -> None:
    if count > EDGES_LIMIT:
        raise WorkloadError(
            "too-many-edges",
            f"The query graph has {count} edges.",
            f"At most {EDGES_LIMIT} edges are listed.",
            "Use a solver that knows the structure of the query and needs no list of edges.",
            "Nothing was computed.",
        )


def _read_only(array: NDArray[Scalar]) -> NDArray[Scalar]:
    array.setflags(write=False)
    return array
