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
| a count, or a sum of values of 0 … v | :class:`Box` | ⌈|i − j|/v⌉ |
| any result may become any other | :func:`complete` | 1 |
| counts, none of which restricts another | :func:`independent_counts` | the largest |i_k − j_k| |
| counts, of which one person is in one at most | :func:`disjoint_counts` | people who moved |

These are the graphs of questions about a domain. All others are outside the kernel (`mechanisms/finite/graphs.py`).

**Source.** ElSalamouny, Chatzikokolakis, Palamidessi: A differentially private mechanism of optimal utility for a
region of priors, POST 2013, section 2. Sections below are of that paper. It has replace-one neighbours.
"""

from __future__ import annotations

import itertools
import math
import reprlib
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, TypeVar, final, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fitnoise.errors import WorkloadError
from fitnoise.kernel.arrays import Floats, Integers
from fitnoise.kernel.checks import checked_integer

Scalar = TypeVar("Scalar", bound=np.generic)

DISTANCES_LIMIT = 10_000
"""The largest number of results for which all distances are computed (0.8 GB at the limit)."""

EDGES_LIMIT = 50_000_000
"""The largest number of edges in a list (0.8 GB at the limit)."""

RESULTS_LIMIT = 2**31 - 1
"""The largest number of results of a graph."""

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
        check_edges(sum(pairs_of))
        index = np.arange(self.n).reshape(self.shape)
        pairs = []
        for move in moves:
            low = tuple(slice(max(-m, 0), s - max(m, 0)) for m, s in zip(move, self.shape, strict=True))
            high = tuple(slice(max(m, 0), s - max(-m, 0)) for m, s in zip(move, self.shape, strict=True))
            pairs.append(np.stack([index[low].ravel(), index[high].ravel()], axis=1))
        return sorted_pairs(np.concatenate(pairs)) if pairs else np.zeros((0, 2), dtype=np.int64)

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
class Complete:
    """A complete graph of n results, all neighbours of each other."""

    n: int

    def edges(self) -> Integers:
        """Return the edges (:class:`Structure`)."""
        check_edges(self.n * (self.n - 1) // 2)
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
        check_edges(math.comb(k, 2) * math.comb(people + k - 2, k - 1))
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
        return sorted_pairs(np.concatenate(pairs))

    def distances_from(self, rows: Integers) -> Floats:
        """Return the distances (:class:`Structure`)."""
        total = np.zeros((len(rows), self.n))
        for column in self.bins.T:
            total += np.abs(column[rows][:, None] - column[None, :])
        return total / 2

    def components(self) -> Integers:
        """Return the components (:class:`Structure`)."""
        return np.zeros(self.n, dtype=np.int64)


# --- the graph -----------------------------------------------------------------------------------------------------


@final
@dataclass(frozen=True, eq=False)
class QueryGraph:
    """The results of a query, and the pairs of them that one person can turn into each other.

    Constructors make graphs; see the table at the top of this module.

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
        return read_only(self.structure.edges())

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
        return read_only(self.structure.distances_from(np.arange(self.n)))

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


# --- templates -----------------------------------------------------------------------------------------------------


def complete(n: int) -> QueryGraph:
    """Return the graph of n results that are all neighbours: one person can turn any into any other, d = 1.

    Median, mode, maximum and range of a table have this graph under replace-one neighbours.

    Raises:
        WorkloadError: n is not a whole number from 1 to RESULTS_LIMIT.
    """
    checked_integer("results", n)
    return QueryGraph(range(n), Complete(n))


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
    shape = tuple(u + 1 for u in people)
    return QueryGraph(LabelTuples([range(n) for n in shape]), Box(shape, (1,) * len(shape)))


def disjoint_counts(people: int, counts: int) -> QueryGraph:
    """Return the graph of several counts of u = `people` people, each in one of them at most: i_1 + … + i_k ≤ u.

    d(i, j) is the number of people who must move, with the uncounted as one bin more. Two counts give a triangular
    lattice. The graph holds for replace-one neighbours.

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
    return QueryGraph(tuple(map(tuple, columns.tolist())), Simplex(read_only(bins)))


# --- helpers -------------------------------------------------------------------------------------------------------


def sorted_pairs(pairs: Integers) -> Integers:
    """Return rows (min, max) in lexicographic order without repeats."""
    if not len(pairs):
        return pairs
    low, high = pairs.min(axis=1), pairs.max(axis=1)
    width = int(high.max()) + 1
    # A graph has fewer than 2³¹ results, so the code of a pair fits in 62 bits.
    codes = np.unique(low * width + high)
    return np.stack(np.divmod(codes, width), axis=1)


def check_edges(count: int) -> None:
    """Raise WorkloadError for more edges than are listed."""
    if count > EDGES_LIMIT:
        raise WorkloadError(
            "too-many-edges",
            f"The query graph has {count} edges.",
            f"At most {EDGES_LIMIT} edges are listed.",
            "Use a solver that knows the structure of the query and needs no list of edges.",
            "Nothing was computed.",
        )


def read_only(array: NDArray[Scalar]) -> NDArray[Scalar]:
    """Return the array, which nothing can write to any longer."""
    array.setflags(write=False)
    return array


def unknown_result(outcome: str) -> WorkloadError:
    """Return the error for a label that is no result; it does not show the label.

    Args:
        outcome: Sentence about what did not happen.
    """
    return WorkloadError(
        "unknown-result",
        "The label is not a result of the query.",
        "",
        "Choose one of the results of the query graph.",
        outcome,
    )
