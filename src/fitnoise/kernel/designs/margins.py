"""Define the integer strategy of a pure plan, with discrete Laplace noise, and its exact price. Trust kernel.

For some sets b of exchangeable attributes, the strategy asks integer queries A_b of the margin over b and the
structured cells. With x the counts of all joint cells:

    y_b = (⊗_{a∈b} I ⊗_{a∉b} 1ᵀ) ⊗ A_b x + noise,     P(k) ∝ exp(−|k|/t) on the integers, one scale t for all.

**Statement.** One record in structured cell o moves the answers by Σ_b ‖(A_b)_{·,o}‖₁ in ℓ1, for any exchangeable
values. So the release is ε-differentially private, with ε the largest such sum over t. This module computes the
rational number ε from these integers and the dyadic t alone. The ρ of the release is half the largest sum of squares
over t². No result of an optimiser enters.

**Amounts.** The entries of every row of every A_b are integers between the knots of amounts. So a record moves each
answer by an integer a_k. This a_k is affine, from each knot to the next, in each amount of the record separately
(`query_blocks`). Every price here is the largest value of one of the following, over records, or over a record and its
replacement:

    Σ_k |a_k|,   Σ_k a_k²,   Σ_k |a_k − a'_k|,   Σ_k (a_k − a'_k)²,   or sums of them over some answers k each.

*Proof.* Each of them is convex in (a, a'). Hence, with all else fixed (including exchangeable values), it is convex
from each knot to the next, in each amount of each of both records. Sums over several releases are convex, too. So the
theorem of `query_blocks` holds for each. The price is computed over cells, and every knot is a cell. So it is the cost
of the costliest record, for any amounts. :meth:`laws` proves the corresponding result for the complete law of a
record's effect, which is not a sum. ∎

**Source.** Li, Hay, Rastogi, Miklau, McGregor, PODS 2010, Propositions 2.4 and 4.2. Here integers replace real numbers,
and exact noise replaces continuous noise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from fitnoise.errors import PlanError
from fitnoise.kernel.arrays import Exact, Floats, read_only
from fitnoise.kernel.designs._base import (
    INT64_SAFE_BOUND,
    NUMBERS_PER_BATCH,
    Answers,
    CellStructure,
    Counts,
    Margin,
    NoiseSource,
    attributes_not_increasing,
    measured_twice,
    noise_out_of_range,
)
from fitnoise.kernel.designs.linear import LinearDesign
from fitnoise.kernel.designs.query_blocks import (
    INT64_SAFE_LIMIT,
    QueryBlock,
    attribute_names,
    exact_matmul,
    largest_entry,
    multiply,
    split,
)
from fitnoise.kernel.losses import Loss
from fitnoise.kernel.profiles import ceil_dyadic
from fitnoise.kernel.units import Adjacency, Neighbours

NOISE_VARIANCE = 2.0
"""The bound on the noise variance, in units of t².

The variance of discrete Laplace noise of scale t is 2q/(1 − q)² with q = exp(−1/t), at most 2 t².
"""

MIN_NOISE_SCALE = 2.0**14
"""The least noise scale of a plan, in units of its lattice.

Finer lattices only cost bits. At this scale, intervals equal those of continuous noise except for 3e-4 of their width.
"""

MAX_NOISE_SCALE = 2.0**44
"""The largest noise scale.

Draws are 64-bit words. Where answers are 64-bit words as well, all arithmetic is exact modulo 2⁶⁴. Where answers are
wider, a draw that fits no word would be an exception to pure privacy. At this scale its probability is below
10^-200000.
"""

MAX_ENTRIES = 2**22
"""The largest number of queries times structured cells for which the laws are computed, in some seconds."""

MAX_LEDGER_LAWS = 4096
"""The largest number of answers, distinguished by their movements, whose laws a ledger stores; above it, one law
bounds all.
"""


@final
@dataclass(frozen=True, eq=False)
class MeasuredMargin:
    """The integer queries on structured cells for every combination of values of some attributes.

    Attributes:
        attributes: The positions among the exchangeable attributes, increasing.
        rows: A_b, int64, (m, n_o), no row zero, every entry below 2⁴⁰ in size.

    Raises:
        PlanError: The rows are not such a matrix, or the attributes are not increasing.
    """

    attributes: tuple[int, ...]
    rows: NDArray[np.int64]

    def __post_init__(self) -> None:
        rows = read_only(self.rows)
        if rows.ndim != 2 or rows.dtype != np.int64 or not rows.size:
            raise PlanError(
                "margin-rows-not-integers",
                "The rows of a measured margin are not a matrix of 64-bit integers.",
                "Each row is a 64-bit integer query on the structured cells.",
                "Give at least one such row.",
                "No strategy was made.",
            )
        if largest_entry(rows) >= 2**40:
            raise PlanError(
                "margin-rows-too-large",
                "A measured margin has an integer of 2^40 or more.",
                "The integers of a strategy with Laplace noise must stay below 2^40.",
                "Give smaller integers.",
                "No strategy was made.",
            )
        if not rows.any(axis=1).all():
            raise PlanError(
                "margin-row-zero",
                "A measured margin has a query that is zero everywhere.",
                "",
                "Remove this query.",
                "No strategy was made.",
            )
        if list(self.attributes) != sorted(set(self.attributes)):
            raise attributes_not_increasing("measured margin")
        object.__setattr__(self, "rows", rows)
        object.__setattr__(self, "attributes", tuple(self.attributes))

    @cached_property
    def column_sums(self) -> Exact:
        """The exact ‖(A_b)_{·,o}‖₁ of every structured cell, (n_o,)."""
        return np.asarray(np.abs(self.rows).astype(object).sum(axis=0))

    @cached_property
    def column_squares(self) -> Exact:
        """The exact ‖(A_b)_{·,o}‖₂² of every structured cell, (n_o,)."""
        return np.asarray((self.rows.astype(object) ** 2).sum(axis=0))


@final
@dataclass(frozen=True, eq=False)
class PureStrategy(LinearDesign):
    """Margins that are measured together, with pure ε.

    Attributes:
        structure: The attributes of the tables, split into those with interchangeable values and the others.
        measured: The measured margins, no set of attributes twice.
        scale: t > 0, a float (hence dyadic), the scale of every answer.

    Raises:
        PlanError: There are no margins, they do not fit the attributes, or one appears twice. Rows have no integers
            between the knots of an amount. Or the scale is not a float above 0 and at most `MAX_NOISE_SCALE`.

    **Guarantees**
        * `step(neighbours)` is the largest ℓ1 distance by which one neighbouring pair can move the exact answers.
        * `unit_epsilon` is an exact fraction, at least the distance for one protected unit over the scale. It is equal
          to this where the unit can have its largest number of records in any one cell.
        * The guarantee is pure ε, for answers of more than 64 bits except for the event that `MAX_NOISE_SCALE` states.
    """

    structure: CellStructure
    measured: tuple[MeasuredMargin, ...]
    scale: float

    def __post_init__(self) -> None:
        inside = all(0 <= a < len(self.sizes) for m in self.measured for a in m.attributes)
        if not self.measured or not inside or any(m.rows.shape[1] != self.cells for m in self.measured):
            raise PlanError(
                "margins-misfit-domain",
                "The margins of the strategy with Laplace noise do not fit its domain, or there are none.",
                "Each margin names attributes of the domain and has one column for each structured cell.",
                "Give at least one margin of this domain.",
                "No strategy was made.",
            )
        if self.structure.steps:
            _ = self._parts  # Raises unless the queries have integers between the knots of amounts.
        if len({m.attributes for m in self.measured}) < len(self.measured):
            raise measured_twice("margin")
        if type(self.scale) is not float or not 0 < self.scale <= MAX_NOISE_SCALE:  # also refuses NaN
            raise noise_out_of_range("strategy with Laplace noise")

    @cached_property
    def runs(self) -> list[tuple[Floats, NDArray[np.int64]]]:
        """The scale t of each margin, with its number of answers."""
        counts = [len(m.rows) * math.prod(self.sizes[a] for a in m.attributes) for m in self.measured]
        return [(np.array([self.scale]), np.array([n], dtype=np.int64)) for n in counts]

    @cached_property
    def _columns(self) -> Exact:
        """The exact Σ_b ‖(A_b)_{·,o}‖₁ of every structured cell, (n_o,)."""
        return np.asarray(sum(m.column_sums for m in self.measured), dtype=object)

    @cached_property
    def _squares(self) -> Exact:
        """The exact Σ_b ‖(A_b)_{·,o}‖₂² of every structured cell, (n_o,)."""
        return np.asarray(sum(m.column_squares for m in self.measured), dtype=object)

    @property
    def rate(self) -> Fraction:
        """The exact fraction 1/t."""
        return 1 / Fraction(self.scale)

    def profile(self) -> tuple[Fraction, ...]:
        """Return the squared cost ε_o² of one record in each structured cell, equal for all exchangeable values."""
        return tuple((int(x) * self.rate) ** 2 for x in self._columns)

    def step(self, neighbours: Neighbours) -> int:
        """Return the largest ℓ1 distance of the exact answers for data that differ in one record.

        Add or remove one: max_o Σ_b ‖A_b,o‖₁. Replace one, from cell (z, o) to (z', o'): where z and z' agree on all of
        b the distance is ‖A_b,o − A_b,o'‖₁. Elsewhere it is ‖A_b,o‖₁ + ‖A_b,o'‖₁, which is no less. So the worst pair
        agrees on no attribute of two values or more. The method takes the maximum over pairs of structured cells.

        Raises:
            PlanError: For replaced records, the integers are too large for sums of 62 bits.
        """
        if neighbours is Neighbours.ADD_OR_REMOVE_ONE:
            return int(self._columns.max())
        disjoint_steps = np.zeros(self.cells, dtype=object)
        distance = np.zeros((self.cells, self.cells), dtype=object)
        for m in self.measured:
            # Records that differ in an attribute of the margin count in different cells of this margin.
            if any(self.sizes[a] > 1 for a in m.attributes):
                disjoint_steps = disjoint_steps + m.column_sums
            else:
                distance = distance + _distances(m.rows)
        return int((distance + disjoint_steps[:, None] + disjoint_steps[None, :]).max())

    def step_squared(self, neighbours: Neighbours) -> int:
        """Return an upper bound on the squared ℓ2 distance of the exact answers for data that differ in one record.

        Add or remove one: max_o Σ_b ‖A_b,o‖₂². Replace one, o by o': where the exchangeable values agree on all of b,
        the squared distance is ‖A_b,o − A_b,o'‖₂², and elsewhere ‖A_b,o‖₂² + ‖A_b,o'‖₂². The method takes the larger of
        both, margin by margin. The bound is exact where no product of two columns is negative: then the second is never
        the smaller one.
        """
        if neighbours is Neighbours.ADD_OR_REMOVE_ONE:
            return int(self._squares.max())
        total = np.zeros((self.cells, self.cells), dtype=object)
        for m in self.measured:
            gram = exact_matmul(m.rows.T, m.rows).astype(object)
            squares = gram.diagonal()
            is_disjoint = any(self.sizes[a] > 1 for a in m.attributes)
            total = total + squares[:, None] + squares[None, :] - 2 * (np.minimum(gram, 0) if is_disjoint else gram)
        return int(total.max())

    def unit_epsilon(self, adjacency: Adjacency) -> Fraction:
        """Return the exact ε for one protected unit of up to g records.

        A change of the unit is a sum of at most g steps of one record each (:class:`Adjacency`), and ℓ1 distances add.
        So ε is g times the largest single step, over t.
        """
        return adjacency.records * max(self.step(step) for step in adjacency.step_relations) * self.rate

    def magnitude(self, records: int) -> int:
        """Return a bound on all exact answers, for at most `records` records.

        Without amounts, it also bounds partial sums. With amounts, counts and their multipliers may be larger than the
        answers. Partial sums may then wrap around, modulo 2⁶⁴, and answers below `INT64_SAFE_BOUND` are still right.
        """
        return records * max(1, *(largest_entry(m.rows) for m in self.measured))

    # --- as a design ------------------------------------------------------------------------------------

    @cached_property
    def _parts(self) -> tuple[tuple[QueryBlock, ...], ...]:
        return tuple(split(m.rows, self.structure) for m in self.measured)

    def margins(self) -> set[Margin]:
        """Return for each measured margin its attributes, with those on which its queries depend."""
        pairs = zip(self.measured, self._parts, strict=True)
        return {n for m, parts in pairs for part in parts for n in self._block_margins(m, part)}

    def _block_margins(self, margin: MeasuredMargin, part: QueryBlock) -> list[Margin]:
        return attribute_names(self.structure, np.array([margin.attributes], dtype=np.intp), part.inner)

    def loss(self, adjacency: Adjacency) -> Loss:
        """Return pure ε, and ρ as a sum over the numbers: Σ_k (s_k/t)²/2, where one unit changes number k by s_k.

        Number k alone is |s_k|/t-differentially private, hence (s_k/t)²/2-zCDP, and the costs of independent draws add.
        Let the unit have up to g records. If neighbours add or remove records, the loss states ρ by cell o, for a unit
        with g records in this cell: ‖s‖₂ = g ‖A_·,o‖₂. Otherwise it states one ρ, with ‖s‖₂² ≤ g² times the largest
        `step_squared`.
        """
        epsilon, factor = self.unit_epsilon(adjacency), adjacency.records**2 * self.rate**2 / 2
        if adjacency.by_cell:
            squares = self._squares.tolist()
            return Loss.of_epsilon(
                epsilon, by_cell=True, axes=self.structure.structured, implied=[x * factor for x in squares]
            )
        square = max(self.step_squared(step) for step in adjacency.step_relations)
        return Loss.of_epsilon(epsilon, by_cell=False, implied=[square * factor])

    def exact_answers(self, counts: Counts, adjacency: Adjacency, records: int) -> Answers:
        """Return one array for each measured margin: its exact answers in C order of (attributes…, rows)."""
        del adjacency  # The integers do not depend on the protected unit.
        dtype = np.dtype(object) if self.magnitude(records) >= INT64_SAFE_BOUND else np.dtype(np.int64)
        return tuple(self._margin_answers(m, p, counts, dtype) for m, p in zip(self.measured, self._parts, strict=True))

    def _margin_answers(
        self, margin: MeasuredMargin, parts: tuple[QueryBlock, ...], counts: Counts, dtype: np.dtype[Any]
    ) -> Exact:
        cells = math.prod(self.sizes[a] for a in margin.attributes)
        out = np.empty((cells, len(margin.rows)), dtype=dtype)
        for part in parts:
            (needed,) = self._block_margins(margin, part)
            # A margin has the measured attributes first, so its rows are their joint cells.
            held = counts[needed].reshape(cells, -1)
            step = max(1, NUMBERS_PER_BATCH // max(held.shape[1], len(part.places)))
            for i in range(0, cells, step):
                out[i : i + step, part.places] = multiply(held[i : i + step], part.queries.T, dtype)
        return out.ravel()

    def draw(self, exact: Answers, noise: NoiseSource) -> Answers:
        """Return every answer plus one independent draw of discrete Laplace noise, in the ring of the values."""
        for values in exact:
            for i in range(0, len(values), NUMBERS_PER_BATCH):
                part = values[i : i + NUMBERS_PER_BATCH]
                part += noise.discrete_laplaces(np.array([self.scale]), np.array([len(part)], dtype=np.int64))
        return exact

    def ledger_detail(self, adjacency: Adjacency) -> dict[str, list[Any]]:
        """Return the number of queries of each margin, and the laws of the effect of one record (:meth:`laws`)."""
        names, laws = self.structure.names, self.laws(adjacency)
        return {
            "margins": [{"of": [names[a] for a in m.attributes], "queries": len(m.rows)} for m in self.measured],
            "numbers": [laws and [[[str(e), n] for e, n in law] for law in laws]],
        }

    def laws(self, adjacency: Adjacency) -> list[list[tuple[Fraction, int]]] | None:
        """Return ε of every number that one record moves, under *continuous* Laplace noise, with the count of each ε.

        **Discrete noise.** Let a number move by s under discrete noise of scale t. Its cost is at most that of
        continuous noise that moves by s/t + 1/(4t²). Its δ at ε is at most 1 − e^((ε−s/t)/2)/cosh(1/2t), and log cosh x
        ≤ x²/2.

        **Amounts.** With continuous noise of density p on ℝⁿ, moved by e, δ at ε is 1 − ∫ min(p(x), e^ε p(x − e)) dx.
        As log p is concave, the logarithm of this minimum is concave in (x, e) together. Hence so is the logarithm of
        its integral in e (Prékopa 1973), and δ is quasi-convex in e, at every ε. It is the same for ±e_k of any k, so
        that it never falls in |e_k|.

        A record moves number k by |a_k|. This costs at most as much as e_k = |a_k|/t + 1/(4t²), also where a_k is 0 at
        one of its adjacent knots. Hence, where there are amounts, the method lists *all* numbers, including those that
        do not move. Along one amount of the record, with all else fixed, |a_k| is at most the straight line between its
        values at the two knots. So for every ε its δ is at most the larger δ of these two knots. Moving one amount
        after the other, it is at most the largest δ of the adjacent knots. So a curve above those of all cells, at each
        ε, is above that of every record. The same holds for one law that is above all numbers in order of size. ∎ The
        knots may depend on ε: the composition of several releases takes such a curve of each of them.

        Returns:
            One list for each cell that is not below another in all numbers, in order of size. If these are more than
            256 lists, or have more than `MAX_LEDGER_LAWS` entries, one list that is above all. None if a unit is more
            than one added or removed record, or if there are more than `MAX_ENTRIES` numbers to sort.
        """
        size = self.cells * sum(len(m.rows) for m in self.measured)
        if adjacency.records > 1 or adjacency.step_relations != (Neighbours.ADD_OR_REMOVE_ONE,) or size > MAX_ENTRIES:
            return None
        excess, columns = self.rate**2 / 4, np.concatenate([np.abs(m.rows) for m in self.measured])
        # Sorted by size within each cell, as a law does not depend on which number moves.
        ranked = np.unique(-np.sort(-columns, axis=0), axis=1)[:, ::-1].T
        maximal: list[NDArray[np.int64]] = []
        for moves in ranked:  # A law that is below another in all numbers comes after it.
            if len(maximal) <= MAX_LEDGER_LAWS // 16 and not any((moves <= other).all() for other in maximal):
                maximal.append(moves)
        laws = [np.unique(moves, return_counts=True) for moves in maximal]
        if len(maximal) > MAX_LEDGER_LAWS // 16 or sum(len(sizes) for sizes, _ in laws) > MAX_LEDGER_LAWS:
            laws = [np.unique(np.max(ranked, axis=0), return_counts=True)]
        min_move = 0 if self.structure.steps else 1  # A number that does not move at a knot may move next to it.

        def epsilon_bound(move: int) -> Fraction:
            """Return ε of a number that moves by `move`, rounded up to a number short enough to write."""
            return ceil_dyadic(move * self.rate + excess, 48)

        return [[(epsilon_bound(int(s)), int(n)) for s, n in zip(*law, strict=True) if s >= min_move] for law in laws]


def _distances(rows: NDArray[np.int64]) -> Exact:
    """Return the exact ℓ1 distances of all pairs of columns, (n_o, n_o); the time follows the nonzero entries.

    Raises:
        PlanError: A distance could need more than 62 bits.
    """
    n = rows.shape[1]
    out = np.zeros((n, n), dtype=np.int64)
    if largest_entry(rows) * 2 * len(rows) >= INT64_SAFE_LIMIT:
        raise PlanError(
            "margin-distances-too-large",
            "The integers of a strategy with Laplace noise are too large for replace-one neighbours.",
            "",
            "Give smaller integers, or use add-or-remove-one neighbours.",
            "Nothing was measured.",
        )
    for row in rows:
        held = np.flatnonzero(row)
        if len(held) * 4 < n:  # |x − y| differs from |x| + |y| only where both are not 0
            size = np.abs(row)
            out[held] += size[held][:, None]
            out[:, held] += size[held][None, :]
            both = np.abs(row[held][:, None] - row[held]) - size[held][:, None] - size[held]
            out[np.ix_(held, held)] += both
        else:
            out += np.abs(row[:, None] - row)
    return out.astype(object)
