"""Generalised least squares from the answers of a pure strategy, sector by sector. This module only post-processes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np
import scipy.linalg as sl
from numpy.typing import NDArray

from fitnoise.errors import SingularStrategy
from fitnoise.kernel.arrays import Exact, Floats, Indices
from fitnoise.kernel.designs._base import CellStructure
from fitnoise.kernel.designs.margins import NOISE_VARIANCE, MeasuredMargin, PureStrategy
from fitnoise.kernel.designs.query_blocks import INT64_SAFE_LIMIT
from fitnoise.mechanisms.gaussian.estimate import apply_covariance, covariance
from fitnoise.solving.sectors import Decomposition, TableGroup

RANK_TOLERANCE = 1e-12
"""Singular values below this part of the largest are treated as zero."""

UNBIASED_TOLERANCE = 1e-7
"""Allowed relative difference between the mean of an estimate and its target: rounding leaves about 1e-15."""


MIN_PARTS = 2**10
"""Least ratio of a query's largest number to the product of steps to whose multiples it is rounded.

Below this ratio, 0 need not stay 0."""


@final
@dataclass(frozen=True, eq=False)
class _MergedCells:
    """Structured cells that some margins distinguish. Cells that they ignore, or treat equally, are merged.

    first_cells: A cell of each class, (u,).
    class_of: The class of every cell, −1 for ignored cells, (n_o,).
    rows: The queries A_b of each margin b over the classes, (m_b, u).
    squares: A_bᵀA_b of each margin, (u, u).
    """

    first_cells: Indices
    class_of: Indices
    rows: list[Floats]
    squares: list[Floats]

    def basis_over_classes(self, basis: NDArray[np.int64]) -> Floats:
        """Return a basis over the classes; raise SingularStrategy if it distinguishes cells that they merge."""
        merged = basis[:, self.first_cells]
        if (np.where(self.class_of >= 0, merged[:, self.class_of], 0) != basis).any():
            raise SingularStrategy(
                "strategy-too-coarse",
                "The strategy of the plan does not distinguish cells that its tables distinguish.",
                "",
                "Use the plan as fitnoise wrote it, or plan again.",
                "Nothing was rebuilt.",
            )
        return merged.astype(np.float64)


@final
class PureEstimation:
    """Generalised least squares from the answers of a pure strategy, sector by sector.

    A_b are the queries of margin b on the structured cells, and y_b its noisy answers. Attribute a has n_a values, t is
    the noise scale, and B_S the basis of sector S.
    Every margin b ⊇ S gives A_b x_S + noise for sector S, once it is summed down to S and centred. The sum multiplies
    the noise variance by n_{b∖S} = Π_{a∈b∖S} n_a. So with M_S = Σ_{b⊇S} A_bᵀA_b / n_{b∖S},

        θ_S = B_S M_S⁺ Σ_b A_bᵀ C_S (Σ_{b∖S} y_b) / n_{b∖S},     cov θ_S = 2t² C_S ⊗ B_S M_S⁺ B_Sᵀ,

    where C_S is the centring. Structured cells that no query distinguishes are merged first. If the answers do not
    determine a sector, :meth:`sector` and all that uses it raise SingularStrategy.
    """

    def __init__(self, strategy: PureStrategy, decomposition: Decomposition) -> None:
        self.strategy, self.decomposition = strategy, decomposition
        self._sets = [frozenset(m.attributes) for m in strategy.measured]
        self._merged: dict[tuple[int, ...], _MergedCells] = {}
        self._sector_cache: dict[tuple[int, int], tuple[dict[int, Floats], Floats]] = {}

    def _merge(self, margins: tuple[int, ...]) -> _MergedCells:
        """Return the structured cells as some margins distinguish them, given by their indices in the strategy."""
        if margins not in self._merged:
            rows = [self.strategy.measured[b].rows for b in margins]
            stacked = np.concatenate(rows)
            # Equal columns are cells that no query of these margins distinguishes; a column of zeros is ignored by all.
            _, first_cells, which = np.unique(stacked, axis=1, return_index=True, return_inverse=True)
            seen = stacked[:, first_cells].any(axis=0)
            class_of = np.where(seen, np.cumsum(seen) - 1, -1)[which.ravel()]
            merged = [x[:, first_cells[seen]].astype(np.float64) for x in rows]
            self._merged[margins] = _MergedCells(first_cells[seen], class_of, merged, [a.T @ a for a in merged])
        return self._merged[margins]

    @property
    def lengths(self) -> tuple[int, ...]:
        """The number of noisy answers of each margin."""
        return self.strategy.lengths

    def sector(self, group: int, i: int) -> tuple[dict[int, Floats], Floats]:
        """Return the matrices of one sector.

        Returns:
            G_b = B M⁺A_bᵀ / n_{b∖S}, (k, m_b), by margin b ⊇ S; and B M⁺Bᵀ, (k, k).

        Raises:
            SingularStrategy: The answers do not determine the sector.
        """
        if (group, i) not in self._sector_cache:
            sectors = self.decomposition.groups[group]
            attributes = frozenset(sectors.attributes[i].tolist())
            margins = tuple(b for b, names in enumerate(self._sets) if attributes <= names)
            if not margins:
                raise SingularStrategy(
                    "strategy-without-margin",
                    "No margin of the plan's strategy shows all attributes that one of its tables shows.",
                    "",
                    "Use the plan as fitnoise wrote it, or plan again.",
                    "Nothing was rebuilt.",
                )
            cells = self._merge(margins)
            # A plan from a file can lack queries that its tables need.
            basis = cells.basis_over_classes(sectors.basis)
            shares = [math.prod(self.strategy.sizes[a] for a in self._sets[b] - attributes) for b in margins]
            # Cholesky first: it is faster, and most strategies have full rank.
            parts = _solved(cells, basis, shares)
            if parts is None:
                parts = _solved_by_pinv(cells, basis, shares)
            if parts is None:
                raise SingularStrategy(
                    "singular-laplace-strategy",
                    "The plan's Laplace strategy is singular.",
                    "Its answers cannot be rebuilt.",
                    "Use the plan as fitnoise wrote it, or plan again.",
                    "Nothing was rebuilt.",
                )
            gains, covariance = parts
            self._sector_cache[group, i] = dict(zip(margins, gains, strict=True)), covariance
        return self._sector_cache[group, i]

    @cached_property
    def whiteners(self) -> list[Floats]:
        """For each group, W with W Wᵀ = 2t² B M⁺Bᵀ for every sector, (K, k, k).

        The squares of each row of L W sum to the sector's share of a variance.
        """
        root = math.sqrt(NOISE_VARIANCE) * self.strategy.scale
        return [
            np.stack([root * np.linalg.cholesky(self.sector(g, i)[1]) for i in range(len(group))])
            for g, group in enumerate(self.decomposition.groups)
        ]

    def covariance(self, f: Mapping[tuple[int, int], Floats], h: Mapping[tuple[int, int], Floats]) -> float:
        """Return the covariance of two combinations of sector estimates."""
        return covariance(self.whiteners, f, h)

    def apply_covariance(self, f: Mapping[tuple[int, int], Floats]) -> dict[tuple[int, int], Floats]:
        """Return cov(θ) f, the covariances of the estimates with Σ ⟨f_S, θ_S⟩, for the sectors in f; f_S is centred."""
        return apply_covariance(self.whiteners, f)

    def estimates(self, answers: Sequence[Exact], group: int, sectors: Indices) -> Floats:
        """Return θ_S of some sectors of a group, all of the same sizes, (K, n_a for a in S…, k)."""
        return np.stack([self._estimate(answers, group, int(i)) for i in sectors])

    def _estimate(self, answers: Sequence[Exact], group: int, i: int) -> Floats:
        attributes = self.decomposition.groups[group].attributes[i].tolist()
        total: Floats | float = 0.0
        for b, gain in self.sector(group, i)[0].items():
            margin, sizes = self.strategy.measured[b], self.strategy.sizes
            y = answers[b].astype(np.float64).reshape(*(sizes[a] for a in margin.attributes), len(margin.rows))
            y = y.sum(axis=tuple(j for j, a in enumerate(margin.attributes) if a not in attributes))
            for axis in range(len(attributes)):
                # C_S: the sum of the answers also contains the sectors of the subsets of S.
                y = y - y.mean(axis=axis, keepdims=True)
            total = total + y @ gain.T
        return np.asarray(total)

    # --- what each number is made of ----------------------------------------------------------------

    def coefficients(self, group: TableGroup, i: int) -> tuple[Floats, Floats]:
        """Return the noise in the i-th of some tables: every number of a row combines independent noises.

        The coefficient of a noise depends on the attributes at which its cell agrees with the number's own cell.

        Returns:
            The different coefficients of each row, (rows, N), in units of the noise. The number of noises with each
            coefficient, (N,): the same for all combinations of exchangeable values.
        """
        axes = group.axes[i].tolist()
        sizes = self.strategy.sizes
        lifted = self._lifted(group, i, axes)
        columns, counts = [], []
        for b, margin in enumerate(self._sets):
            common = [a for a in axes if a in margin]
            rows, m = group.variances.shape[1], len(self.strategy.measured[b].rows)
            total = np.zeros((2,) * len(common) + (rows, m))
            for s, parts in lifted.items():
                if s <= margin:
                    # One slot for each subset of the common attributes: index 1 where the sector has the attribute.
                    total[tuple(int(a in s) for a in common)] = parts[b]
            times = np.ones((2,) * len(common))
            for axis, a in enumerate(common):
                # Centring: a sector adds 1 − 1/n where the cell agrees with the number's cell, and −1/n elsewhere.
                without, with_ = np.moveaxis(total, axis, 0)
                total = np.stack([without - with_ / sizes[a], without + with_ * (1 - 1 / sizes[a])], axis=axis)
                times *= np.array([sizes[a] - 1, 1]).reshape(-1, *(1,) * (len(common) - axis - 1))
            rest = math.prod(sizes[a] for a in margin.difference(axes))
            flat = total.reshape(-1, rows, m).transpose(1, 0, 2).reshape(rows, -1)
            columns.append(flat)
            counts.append(np.repeat(times.ravel() * rest, m))
        count = np.concatenate(counts)
        # No cell disagrees on an attribute of one value.
        used = count > 0
        return np.concatenate(columns, axis=1)[:, used], count[used]

    def _lifted(self, group: TableGroup, i: int, tables: list[int]) -> dict[frozenset[int], dict[int, Floats]]:
        """Return L_S G_b / n_{A∖S}, (rows, m_b), for every sector S of the i-th of some tables and margin b ⊇ S."""
        d = self.decomposition
        number = next(j for j, g in enumerate(d.tables) if g is group)
        out = {}
        for group_index, sectors in enumerate(d.groups):
            for m in sectors.members:
                if m.tables != number:
                    continue
                for s in m.by_table[[i]].indices.tolist():
                    attributes = frozenset(sectors.attributes[s].tolist())
                    rest = math.prod(self.strategy.sizes[a] for a in tables if a not in attributes)
                    gains = self.sector(group_index, s)[0]
                    out[attributes] = {b: m.answers(g.T).T / rest for b, g in gains.items()}
        return out

    def noise_coefficients(self, adjoints: Mapping[tuple[int, int], Floats]) -> Floats:
        """Return the coefficient of every single noise in a combination of published numbers, (answers,).

        Args:
            adjoints: The tensor p_S = C_S Lᵀf of the combination by (group, sector), (n_a for a in S…, k).
        """
        parts = [
            np.zeros((*(self.strategy.sizes[a] for a in m.attributes), len(m.rows))) for m in self.strategy.measured
        ]
        for (group, i), tensor in adjoints.items():
            attributes = self.decomposition.groups[group].attributes[i].tolist()
            for b, gain in self.sector(group, i)[0].items():
                contribution = tensor @ gain
                margin_attributes = self.strategy.measured[b].attributes
                shape = [self.strategy.sizes[a] if a in attributes else 1 for a in margin_attributes]
                parts[b] += contribution.reshape(*shape, -1)
        return np.concatenate([x.ravel() for x in parts])


def _solved(cells: _MergedCells, basis: Floats, shares: list[int]) -> tuple[list[Floats], Floats] | None:
    """Return G_b = B M⁻¹A_bᵀ/n_{b∖S} of every margin, and B M⁻¹Bᵀ; None if M is numerically singular."""
    information = np.asarray(sum(x / n for x, n in zip(cells.squares, shares, strict=True)))
    try:
        solved = sl.cho_solve(sl.cho_factor(information, lower=True), basis.T).T
    except sl.LinAlgError:
        return None
    gains = [solved @ a.T / n for a, n in zip(cells.rows, shares, strict=True)]
    return (gains, solved @ basis.T) if _unbiased(cells, basis, gains) else None


def _solved_by_pinv(cells: _MergedCells, basis: Floats, shares: list[int]) -> tuple[list[Floats], Floats] | None:
    """Return G_b = B M⁺A_bᵀ/n_{b∖S} and B M⁺Bᵀ, where the measured queries span fewer dimensions than there are cells.

    M = Σ_b A_bᵀA_b/n_{b∖S}. Singular values of the scaled queries A_b/√n_{b∖S} give M⁺. Return None if the basis is
    not in the span of the queries: then no estimate exists.

    cells: The measured queries A_b of each margin b that contains the sector S, over merged cells.
    basis: B, the rows to be estimated.
    shares: n_{b∖S} of each margin b, the number of joint values of its attributes that S lacks.
    """
    # M = Σ A_bᵀA_b/n is the square of these scaled rows; their singular values lose fewer digits than M.
    roots = np.sqrt(np.array(shares, dtype=np.float64))
    scaled = np.concatenate([a / n for a, n in zip(cells.rows, roots, strict=True)])
    inverse = basis @ np.linalg.pinv(scaled, rcond=RANK_TOLERANCE)
    ends = np.cumsum([len(a) for a in cells.rows])[:-1]
    gains = [g / n for g, n in zip(np.split(inverse, ends, axis=1), roots, strict=True)]
    return (gains, inverse @ inverse.T) if _unbiased(cells, basis, gains) else None


def _unbiased(cells: _MergedCells, basis: Floats, gains: list[Floats]) -> bool:
    """Return True if Σ G_b A_b is B."""
    # The last pivot of a singular matrix may be pure rounding error, and positive: Cholesky then raises nothing.
    rebuilt = np.asarray(sum(g @ a for g, a in zip(gains, cells.rows, strict=True)))
    return bool((np.abs(rebuilt - basis).max(axis=1) <= UNBIASED_TOLERANCE * np.abs(basis).max(axis=1)).all())


def integer_margins(
    weights: Mapping[tuple[int, ...], Floats], bits: int, structure: CellStructure | None = None
) -> tuple[MeasuredMargin, ...]:
    """Return real queries A_b, (m, n_o), by set of attributes, as integers with a largest column sum near 2^bits.

    A column sum is of absolute values, over all sets. Queries that round to 0 are left out. With `structure`, the
    attributes if some are amounts, all queries are integers between their knots too. If their steps raise a column sum
    to 2^40 or more, fewer bits are used.
    """
    largest = float(np.asarray(sum(np.abs(a).sum(axis=0) for a in weights.values())).max())
    scaled = {b: a * (2.0**bits / largest) for b, a in weights.items()}
    integers = {b: nearest(a, structure) if structure else np.rint(a) for b, a in scaled.items()}
    if structure and np.asarray(sum(np.abs(a).sum(axis=0) for a in integers.values())).max() >= 2.0**40:
        return integer_margins(weights, bits - 1, structure)
    rounded = {b: a.astype(np.int64) for b, a in integers.items()}
    return tuple(MeasuredMargin(b, a[a.any(axis=1)]) for b, a in rounded.items() if a.any())


def filled(margins: Sequence[MeasuredMargin], structure: CellStructure | None = None) -> tuple[MeasuredMargin, ...]:
    """Return the margins with smaller columns raised to the largest, if a query is on one class of equal cells alone.

    The largest column sum stays, so the costliest single record costs no more than before. No number is less accurate,
    because more is measured (Theorem 5.27, docs/mathematics/matrix_mechanism.md). With `structure`, the attributes if
    some are amounts, columns are raised only as far as all queries are integers between knots.
    """
    out = [m.rows.copy() for m in margins]
    which = np.unique(np.concatenate(out), axis=1, return_inverse=True)[1].ravel()
    members = np.bincount(which)
    sums = np.asarray(sum(m.column_sums for m in margins), dtype=object)
    done: set[int] = set()
    for rows in out:
        for row in rows:
            cells = np.flatnonzero(row)
            kind = int(which[cells[0]])
            # Raising any other query would also raise the cost of cells outside the class.
            if kind not in done and len(cells) == members[kind] and (which[cells] == kind).all():
                done.add(kind)
                value, short = int(row[cells[0]]), int(sums.max() - sums[cells[0]])
                if structure:
                    # The raised query must stay an integer at all points between the knots.
                    short -= short % int(min_multiples((which == kind)[None], structure)[0])
                row[cells] = value + short if value > 0 else value - short
    return tuple(MeasuredMargin(m.attributes, rows) for m, rows in zip(margins, out, strict=True))


# --- integers between the knots of amounts ------------------------------------------------------------


def nearest(rows: Floats, structure: CellStructure) -> Floats:
    """Return integers near real queries of the structured cells, (m, n_o), that are integers between knots as well.

    K_s is the number of steps from knot s − 1 to knot s of an amount. The integers rise by multiples of K_s there, and
    for several amounts by multiples of products. A query with a single value other than 0 becomes a multiple of its
    cells' count (`min_multiples`), or 0 if that is too large. Other queries, if they are large enough, become multiples
    of Π lcm(K_1, K_2, …), so that 0 stays 0. The product is over the amounts along which the query varies. For the
    rest, every rise is computed from the entries that are already rounded (`_round_steps`).
    """
    nonzero = rows != 0
    sizes = np.abs(rows)
    largest = sizes.max(axis=1)
    out = np.empty_like(rows)
    # Zeros are filled with the largest entry, so a row of one value other than 0 becomes constant.
    filled_rows = np.where(nonzero, rows, rows[np.arange(len(rows)), sizes.argmax(axis=1)][:, None])
    is_constant = (filled_rows == filled_rows[:, :1]).all(axis=1)
    unit = min_multiples(nonzero[is_constant], structure).astype(np.float64)[:, None]
    # A count keeps its zeros: cells outside it must not be measured.
    out[is_constant] = unit * np.rint(rows[is_constant] / unit)
    shaped, amounts = rows.reshape(-1, *structure.shape), _amounts(structure)
    for i in np.flatnonzero(~is_constant).tolist():
        row = shaped[i : i + 1]
        varying = [(axis, pieces) for axis, pieces in amounts if (row != row.take([0], axis)).any()]
        times = math.prod(math.lcm(*pieces) for _, pieces in varying)
        rounded_row = times * np.rint(row / times) if times * MIN_PARTS <= largest[i] else _round_steps(row, amounts)
        out[i] = rounded_row.ravel()
    return out


def _amounts(structure: CellStructure) -> list[tuple[int, tuple[int, ...]]]:
    """Return the axes of queries, (m, …), that are amounts, with K_s of each."""
    steps = dict(structure.steps)
    return [(axis, steps[a]) for axis, (a, _) in enumerate(structure.structured, 1) if a in steps]


def _round_steps(rows: Floats, amounts: Sequence[tuple[int, tuple[int, ...]]]) -> Floats:
    """Return queries, (m, …), rounded so that they are integers at every step between the knots of amounts, too.

    K_s is the number of steps from knot s − 1 to knot s of an amount. Between these knots, entries rise by a multiple
    of K_s. So the error of an entry is at most half the product of one factor for each amount. The factor is K_s at
    knot s, and 1 at knot 0 and in cells after the knots.

    Args:
        rows: The queries.
        amounts: For each amount its axis, and K_1, K_2 and so on.
    """
    if not amounts:
        return np.asarray(np.rint(rows))
    (axis, pieces), *others = amounts
    out = [_round_steps(rows.take([0], axis), others)]
    for s, k in enumerate(pieces, 1):
        out.append(out[-1] + k * _round_steps((rows.take([s], axis) - out[-1]) / k, others))
    remainder = range(len(pieces) + 1, rows.shape[axis])
    return np.concatenate([*out, _round_steps(rows.take(remainder, axis), others)], axis=axis)


def min_multiples(cells: NDArray[np.bool_], structure: CellStructure) -> Exact:
    """Return the least multiple of each count of structured cells, (m, n_o), that is an integer at all points, (m,).

    The points are those between all knots of the amounts.
    """
    amounts = _amounts(structure)
    times = math.prod(math.lcm(*pieces) for _, pieces in amounts)
    counted = (
        # Each difference along an amount can double an entry.
        cells.reshape(-1, *structure.shape).astype(np.int64 if times << len(amounts) < INT64_SAFE_LIMIT else object)
        * times
    )
    for axis, pieces in amounts:
        knots, remainder = np.split(counted, [len(pieces) + 1], axis=axis)
        divisors = np.array(pieces, dtype=counted.dtype).reshape([-1 if i == axis else 1 for i in range(counted.ndim)])
        counted = np.concatenate([knots.take([0], axis), np.diff(knots, axis=axis) // divisors, remainder], axis=axis)
    return np.asarray(times // np.gcd(times, np.gcd.reduce(counted.reshape(len(cells), structure.size), axis=1)))
