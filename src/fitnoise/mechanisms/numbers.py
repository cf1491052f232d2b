"""Covariances of published numbers, one pair or many at once. This module only post-processes.

A number of table A at values v is Σ_{S⊆A} θ_S[v_S] / Π_{a∈A∖S} n_a. In the sum over all values of an attribute, every
θ_S that shows the attribute vanishes. So two numbers, at v and w, with structured rows r and q, have the covariance

    Σ_{S⊆A∩B} Π_{a∈S} ([v_a = w_a] − 1/n_a) · Π_{a∈A∖S} 1/n_a · Π_{a∈B∖S} 1/n_a · (L_A W_S)_r · (L_B W_S)_q.

Here L_A is the lift of A, and W_S the whitener of the sector (`Estimation.whiteners`), for sectors with independent
estimates. Along an attribute that a number sums over, the first factor is 0, and the number's factor 1/n_a is 1.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np
import scipy.sparse as sp

from fitnoise.kernel.arrays import Floats, Indices
from fitnoise.mechanisms.estimation import SectorTablesPart
from fitnoise.solving.sectors import Members, TableGroup

SUM_OF_ALL = -1
"""Mark for the sum over all positions of an attribute, in place of a position."""


SUM_ROUNDING = 1e-12
"""The share of the largest of its terms below which a sum of noises that should cancel is rounding."""


@final
@dataclass(frozen=True, eq=False)
class TableNumbers:
    """P numbers of one table, or sums of such numbers.

    part: The part of the plan that has the table.
    table: The index of the table in the workload of this part.
    indices: For each attribute of the table and each number, the position of the value or range that the table shows,
        or SUM_OF_ALL, (attributes, P).
    """

    part: SectorTablesPart
    table: int
    indices: Indices

    def __len__(self) -> int:
        return int(self.indices.shape[1])

    @cached_property
    def _group_and_index(self) -> tuple[TableGroup, int]:
        return self.part.decomposition.group_of(self.table)

    @property
    def group(self) -> TableGroup:
        """The group of the table."""
        return self._group_and_index[0]

    @property
    def i(self) -> int:
        """The table's index in its group."""
        return self._group_and_index[1]

    @cached_property
    def _unfolded(self) -> tuple[dict[int, Indices], list[Indices]]:
        axes = self.group.axes[self.i].tolist()
        sizes = [self.part.decomposition.sizes[a] for a in axes]
        for k, view in enumerate(self.group.views):
            # A table by axis is indexed by the ranges that it shows, not by the values of the attribute.
            sizes[k] = sizes[k] if view is None else view.shape[0]
        lengths = [*sizes, *self.group.inner_shape]
        cuts = np.cumsum([0, *self.group.spans])
        indices: dict[int, Indices] = {}
        for row, (start, stop) in zip(self.indices, itertools.pairwise(cuts), strict=True):
            dims = self.group.transpose[start:stop]
            # SUM_OF_ALL is negative. It is replaced by 0 for the division, and restored in all parts of the index.
            inside = np.unravel_index(np.maximum(row, 0), tuple(lengths[d] for d in dims))
            indices.update({d: np.where(row == SUM_OF_ALL, SUM_OF_ALL, x) for d, x in zip(dims, inside, strict=True)})
        return {a: indices[k] for k, a in enumerate(axes)}, [indices[d] for d in range(len(axes), len(lengths))]

    @property
    def axes(self) -> dict[int, Indices]:
        """The value of each exchangeable attribute of the table, or SUM_OF_ALL, (P,)."""
        return self._unfolded[0]

    @cached_property
    def inner(self) -> Indices:
        """Index among the table's structured rows, where the sum along an attribute follows its values, (P,)."""
        shape = tuple(n + 1 for n in self.group.inner_shape)
        multi_index = tuple(
            np.where(x == SUM_OF_ALL, n, x) for x, n in zip(self._unfolded[1], self.group.inner_shape, strict=True)
        )
        return np.asarray(np.ravel_multi_index(multi_index, shape)) if shape else np.zeros(len(self), dtype=np.intp)

    def sectors(self) -> Iterator[tuple[tuple[int, int], Members]]:
        """Yield the sectors that the table reaches, each by its group and its index there."""
        d = self.part.decomposition
        # Groups hold arrays, so they are compared by identity.
        number = next(i for i, g in enumerate(d.tables) if g is self.group)
        for group_index, sectors in enumerate(d.groups):
            for m in sectors.members:
                if m.tables == number:
                    yield from (((group_index, s), m) for s in m.by_table[[self.i]].indices.tolist())

    def blocks(self) -> Iterator[tuple[Indices, TableNumbers]]:
        """Yield the blocks of the table in which some of the numbers have a part: their positions, and these parts.

        A sum along a column has a part in each block. A table without blocks is one block.
        """
        if not self.part.decomposition.blocks:
            yield np.arange(len(self)), self
        for t, block in self.part.decomposition.blocks_of(self.table):
            inside, indices = np.ones(len(self), dtype=bool), np.zeros_like(self.indices)
            for column, (row, positions) in enumerate(zip(self.indices, block.columns, strict=True)):
                indices[column] = np.minimum(np.searchsorted(positions, row), len(positions) - 1)
                inside &= (positions[indices[column]] == row) | (row == SUM_OF_ALL)
                indices[column, row == SUM_OF_ALL] = SUM_OF_ALL
            if inside.any():
                yield np.flatnonzero(inside), TableNumbers(self.part, t, indices[:, inside])

    def take(self, which: Indices) -> TableNumbers:
        """Return the numbers at these positions."""
        return TableNumbers(self.part, self.table, self.indices[:, which])

    def rows(self, members: Members, factor: Floats) -> Floats:
        """Return L times a factor (k, d), with sums along every structured attribute, (rows, d)."""
        products = members.answers(factor.T).T.reshape(*self.group.inner_shape, -1)
        axes = len(self.group.inner_shape)
        rows = with_sums(products, axes).reshape(-1, products.shape[-1])
        if self.part.decomposition.public is not None:
            # Sums that follow from public totals have no noise, and their rounding errors would be some.
            sizes = with_sums(np.abs(products), axes).reshape(rows.shape)
            rows[np.abs(rows).max(axis=1) <= SUM_ROUNDING * sizes.max(axis=1)] = 0
        return rows


def on_distinct(function: Callable[[Floats], Floats], x: Floats) -> Floats:
    """Return a function of each number; numbers that an array repeats along an axis are computed and kept once.

    Args:
        function: A function of each number on its own.
        x: The numbers. The result has their shape and repeats the same ones, so nothing may be written to it.
    """
    once = x[tuple(slice(0, 1) if stride == 0 else slice(None) for stride in x.strides)]
    return np.broadcast_to(function(once), x.shape)


def with_sums(x: Floats, axes: int) -> Floats:
    """Return x with the sum over each of its first `axes` axes as a further, last entry of that axis."""
    for axis in range(axes):
        x = np.concatenate([x, x.sum(axis=axis, keepdims=True)], axis=axis)
    return x


def agreement(v: Indices, w: Indices, n: int) -> Floats:
    """Return [v = w] − 1/n, and 0 for sums over all n values."""
    return np.where((v == SUM_OF_ALL) | (w == SUM_OF_ALL), 0.0, (v == w) - 1 / n)


def mean_weight(v: Indices, n: int) -> Floats:
    """Return 1/n, and 1 for sums over all n values."""
    return np.where(v == SUM_OF_ALL, 1.0, 1 / n)


def dots(x: Floats, y: Floats, v: Indices, w: Indices) -> Floats:
    """Return ⟨x_v, y_w⟩ for P pairs of rows of x and y, (P,); v and w are the indices of the rows, (P,)."""
    # At most 2²² numbers of each factor are in memory at once.
    step = max(1, 2**22 // x.shape[1])
    spans = (slice(k, k + step) for k in range(0, len(v), step))
    return np.concatenate([np.zeros(0), *(np.einsum("pk,pk->p", x[v[s]], y[w[s]]) for s in spans)])


def by_sector(left_numbers: TableNumbers, right_numbers: TableNumbers) -> Floats:
    """Return covariances of pairs of numbers if the sectors are estimated independently, (P,), in people²."""
    if not left_numbers.part.decomposition.blocks:
        return _by_sector(left_numbers, right_numbers)
    out, right_blocks = np.zeros(len(left_numbers)), list(right_numbers.blocks())
    for left_positions, left_part in left_numbers.blocks():
        for right_positions, right_part in right_blocks:
            both, left_ones, right_ones = np.intersect1d(left_positions, right_positions, return_indices=True)
            if len(both):
                out[both] += _by_sector(left_part.take(left_ones), right_part.take(right_ones))
    return out


def _by_sector(left_numbers: TableNumbers, right_numbers: TableNumbers) -> Floats:
    """Return covariances of pairs of numbers, each in one block of its table."""
    sizes, mine, theirs = left_numbers.part.decomposition.sizes, left_numbers.axes, right_numbers.axes
    agree = {a: agreement(v, theirs[a], sizes[a]) for a, v in mine.items() if a in theirs}
    shares = [(a, mean_weight(v, sizes[a])) for axes in (mine, theirs) for a, v in axes.items()]
    width = int(right_numbers.inner.max(initial=0)) + 1
    # Many numbers share a pair of structured rows, and each such pair is multiplied once.
    pairs, which = np.unique(left_numbers.inner * width + right_numbers.inner, return_inverse=True)
    rows, columns = np.divmod(pairs, width)
    right_sectors, total = dict(right_numbers.sectors()), np.zeros(len(left_numbers))
    for (group, s), members in left_numbers.sectors():
        if (group, s) not in right_sectors:
            continue
        whitener = left_numbers.part.estimation.whiteners[group][s]
        x, y = left_numbers.rows(members, whitener), right_numbers.rows(right_sectors[group, s], whitener)
        covariances = dots(x, y, rows, columns)[which.ravel()]
        attributes = set(left_numbers.part.decomposition.groups[group].attributes[s].tolist())
        for a in attributes:
            covariances *= agree[a]
        for a, part in shares:
            if a not in attributes:
                covariances *= part
        total += covariances
    return total


# --- sums of many numbers ---------------------------------------------------------------------------------


@final
@dataclass(frozen=True, eq=False)
class WeightedSums:
    """Weighted sums of numbers of one table: P numbers in J sums.

    numbers: The numbers, (P,).
    sums: The index of the sum that contains each number, (P,).
    factors: The weights, (P,).
    """

    numbers: TableNumbers
    sums: Indices
    factors: Floats

    @classmethod
    def from_coefficients(
        cls, part: SectorTablesPart, table: int, numbers: Indices, rows: sp.csr_array
    ) -> WeightedSums:
        """Return the sums whose coefficients are the J rows of a sparse matrix.

        numbers: The position of each of the P stored coefficients, as `TableNumbers.indices`, (attributes, P).
        """
        sums = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
        return cls(TableNumbers(part, table, numbers), sums, rows.data)

    def in_sector(
        self, axes: Mapping[int, Indices], attributes: Collection[int], kept_attributes: Sequence[int]
    ) -> tuple[Indices, Indices, Floats]:
        """Return the part of each sum in a sector, summed over `attributes` but not `kept_attributes`.

        A sum over all values of an attribute of the sector has no part in it. Other attributes contribute their share.
        `axes`: The values of the numbers' exchangeable attributes, as :attr:`TableNumbers.axes`.

        Returns:
            The indices of the numbers in it, the joint index of sum and kept values, and the factors.
        """
        sizes = self.numbers.part.decomposition.sizes
        there = np.ones(len(self.numbers), dtype=bool)
        for a in attributes:
            there &= axes[a] != SUM_OF_ALL
        kept_numbers = np.flatnonzero(there)
        key, factor = self.sums[kept_numbers].astype(np.int64), self.factors[kept_numbers]
        for a in axes.keys() - set(attributes):
            factor = factor * mean_weight(axes[a][kept_numbers], sizes[a])
        for a in kept_attributes:
            key = key * sizes[a] + axes[a][kept_numbers]
        return kept_numbers, key, factor


def alternating(attributes: Collection[int], sizes: Sequence[int]) -> Iterator[tuple[tuple[int, ...], float]]:
    """Yield Π_{a∈S} ([v_a = w_a] − 1/n_a) by subsets U of S: Π_{a∈U} [v_a = w_a] · Π_{a∈S∖U} (−1/n_a)."""
    for k in range(len(attributes) + 1):
        for subset in itertools.combinations(attributes, k):
            yield subset, math.prod(-1 / sizes[a] for a in attributes if a not in subset)


def sums_by_sector(left_sums: WeightedSums, right_sums: WeightedSums, length: int) -> Floats | None:
    """Return covariances of corresponding sums if the sectors are estimated independently, (J,), in people².

    The sum over sectors is that of `by_sector`, but numbers of equal values are added up first. So the work grows with
    the numbers and not with their pairs. Return None if structured attributes are shown, or for tables in blocks.

    length: J, the number of sums on either side.
    """
    if left_sums.numbers.part.decomposition.blocks:
        return None
    if left_sums.numbers.group.inner_shape or right_sums.numbers.group.inner_shape:
        return None
    part, mine, theirs = left_sums.numbers.part, left_sums.numbers.axes, right_sums.numbers.axes
    right_sectors, total = dict(right_sums.numbers.sectors()), np.zeros(length)
    for (group, s), members in left_sums.numbers.sectors():
        if (group, s) not in right_sectors:
            continue
        whitener = part.estimation.whiteners[group][s]
        x = left_sums.numbers.rows(members, whitener)[0]
        y = right_sums.numbers.rows(right_sectors[group, s], whitener)[0]
        # Without structured attributes, each table has one row in the sector.
        scale = float((x * y).sum())
        attributes = part.decomposition.groups[group].attributes[s].tolist()
        for subset, sign in alternating(attributes, part.decomposition.sizes):
            # A key is sum · cells + values, so its quotient by `cells` is the sum.
            cells = math.prod(part.decomposition.sizes[a] for a in subset)
            _, key, factor = left_sums.in_sector(mine, attributes, subset)
            _, right_key, counter = right_sums.in_sector(theirs, attributes, subset)
            keys, which = np.unique(np.concatenate([key, right_key]), return_inverse=True)
            # Equal keys are numbers of one sum with equal values in the subset: these are the pairs with [v_a = w_a].
            f = np.bincount(which[: len(key)], factor, minlength=len(keys))
            h = np.bincount(which[len(key) :], counter, minlength=len(keys))
            total += np.bincount(keys // cells, sign * scale * f * h, minlength=length)
    return total
