"""Linear forms of published numbers: values and exact covariances of many at once. Post-processing only.

A form is a sparse row of coefficients for the numbers of some tables, and for sums of them over all rows of a column.
Releases are consistent, so a form is an equal number over any of its tables.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast, final

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from fitnoise.errors import ReleaseError
from fitnoise.kernel.arrays import Floats, Indices
from fitnoise.mechanisms import rebuilding
from fitnoise.mechanisms.estimation import SectorTablesPart
from fitnoise.mechanisms.numbers import TableNumbers, WeightedSums
from fitnoise.mechanisms.rebuilding import RebuiltTables
from fitnoise.reading.refusals import UNCOMPUTED

if TYPE_CHECKING:
    from fitnoise.mechanisms.tables import TablePart

MAX_PAIRS_DIRECT = 2**6
"""The number of pairs of coefficients of two forms above which `AnswerSource.sums` is used, if it gives a result."""

MAX_PAIRS_SPARSE = 2**12
"""The number of pairs of coefficients of two forms above which all numbers of their tables are used instead."""

NUMBERS_PER_BATCH = 2**21
"""The largest number of numbers, or of pairs of them, held at once; a single row of forms may need more."""

MAX_ROWS_TIMES_CELLS = 2**26
"""The number of a table's structured rows times joint cells above which pairs of its numbers are not used."""


@dataclass(frozen=True)
class AnswerSource:
    """The noisy answers of one part of a release: those of equal digest and part index are one noise.

    The noise of others is independent, except for those that :func:`refuse_shared_noise` refuses.

    digest: The digest of all answers of the release.
    part_index: The index of the part.
    rebuilt: Its tables.

    A subclass has the answers of several parts jointly (:mod:`fitnoise.reading.combining`).
    """

    digest: str
    part_index: int
    rebuilt: RebuiltTables

    # without the tables: answers of equal digests are equal, and the tables may be rebuilt twice
    def __eq__(self, other: object) -> bool:
        return isinstance(other, AnswerSource) and (self.digest, self.part_index) == (other.digest, other.part_index)

    def __hash__(self) -> int:
        return hash((self.digest, self.part_index))

    @property
    def part(self) -> SectorTablesPart:
        """The tables, with their estimation."""
        return self.rebuilt.part

    @property
    def with_measured_design(self) -> TablePart:
        """The part with its design, as it was measured."""
        return cast("TablePart", self.rebuilt.part)

    @property
    def normal(self) -> bool:
        """True if its noise is treated as normal."""
        return self.with_measured_design.intervals.normal

    @property
    def parts(self) -> tuple[AnswerSource, ...]:
        """The sources of the single noises in its numbers: itself, or the sources from which it is combined."""
        return (self,)

    def covariance(self, left_numbers: TableNumbers, right_numbers: TableNumbers) -> Floats:
        """Return the covariances of pairs of its numbers, (P,), in products of their units."""
        return self.with_measured_design.errors.covariance(left_numbers, right_numbers)

    def sums(self, left_sums: WeightedSums, right_sums: WeightedSums, length: int) -> Floats | None:
        """Return the covariances of sums of many numbers, one by one, (J,); None to use pairs or all numbers."""
        return self.with_measured_design.errors.sums(left_sums, right_sums, length)

    def traced(self, tensors: Mapping[str, Floats]) -> dict[AnswerSource, dict[str, Floats]]:
        """Return a combination of its numbers as combinations of its parts: by table a coefficient for each number."""
        return {self: dict(tensors)}

    def shape(self, table: int) -> tuple[int, ...]:
        """Return the shape of a table by its index, with a sum after the rows of each column."""
        workload = self.part.publication.workload
        return tuple(n + 1 for n in workload.tables[table].shape(workload.domain))

    def values(self, table: int) -> Floats:
        """Return all numbers of a table, and their sums along columns, as one vector."""
        if table not in self._table_numbers:
            self._table_numbers[table] = self.rebuilt.with_sums(table).ravel()
        return self._table_numbers[table]

    @cached_property
    def _table_numbers(self) -> dict[int, Floats]:
        return {}

    def form(self, name: str, coefficients: Floats) -> Forms:
        """Return one combination of a table's numbers, by coefficients in its shape.

        Raises:
            ReleaseError: There is no such table, or the coefficients have another shape or are not finite.
        """
        factors = rebuilding.coefficients(self.part, name, coefficients)
        number = self.part.publication.workload.number(name)
        wide = np.zeros(self.shape(number))
        wide[tuple(slice(n) for n in factors.shape)] = factors  # the sums after the rows keep the coefficient 0
        return Forms(1, {(self, number): sp.csr_array(wide.reshape(1, -1))})

    def numbers(self, name: str) -> Forms:
        """Return a form for each number of a table, in C order of its shape."""
        workload = self.part.publication.workload
        number = workload.number(name)
        shape = workload.tables[number].shape(workload.domain)
        # the sums after the rows of each column have positions, too
        positions = np.ravel_multi_index(np.indices(shape), self.shape(number)).ravel() if shape else np.zeros(1, int)
        n = len(positions)
        width = math.prod(self.shape(number))
        return Forms(n, {(self, number): sp.csr_array((np.ones(n), (np.arange(n), positions)), shape=(n, width))})


Pieces = Mapping[tuple[AnswerSource, int], sp.csr_array]


@final
@dataclass(frozen=True, eq=False)
class Forms:
    """Linear forms, one a row, (J,): by source and table, sparse coefficients of the numbers (`AnswerSource.shape`)."""

    length: int
    pieces: Pieces

    @property
    def sources(self) -> tuple[AnswerSource, ...]:
        """The sources whose noise is in the forms."""
        return tuple(dict.fromkeys(source for source, _ in self.pieces))

    @property
    def digests(self) -> frozenset[str]:
        """The digests of the releases of the forms."""
        return frozenset(source.digest for source, _ in self.pieces)

    def values(self) -> Floats:
        """Return their unbiased estimates, (J,)."""
        out = np.zeros(self.length)
        for (source, table), x in self.pieces.items():
            out += x @ source.values(table)
        return out

    def take(self, rows: Indices) -> Forms:
        """Return the forms at these indices, in any order and with repetition."""
        return Forms(len(rows), {key: x[rows] for key, x in self.pieces.items()})

    def combined(self, matrix: sp.csr_array) -> Forms:
        """Return combinations of the forms, one for each row of a matrix."""
        return Forms(int(matrix.shape[0]), {key: sp.csr_array(matrix @ x) for key, x in self.pieces.items()})

    def scale(self, factors: Floats | float) -> Forms:
        """Return each form times its factor, (J,), or all forms times one factor."""
        scale = sp.diags_array(np.broadcast_to(np.asarray(factors, dtype=np.float64), self.length))
        return Forms(self.length, {key: sp.csr_array(scale @ x) for key, x in self.pieces.items()})

    def plus(self, other: Forms) -> Forms:
        """Return the sums row by row, of as many forms."""
        pieces = dict(self.pieces)
        for key, x in other.pieces.items():
            pieces[key] = sp.csr_array(pieces[key] + x) if key in pieces else x
        return Forms(self.length, pieces)

    def equals(self, other: Forms) -> bool:
        """Return True if both have the same coefficients on the numbers of the same answers.

        A table that only one of them names makes them differ, also if its coefficients are 0.
        """
        same = self.length == other.length and self.pieces.keys() == other.pieces.keys()
        return same and all(not sp.csr_array(x - other.pieces[key]).count_nonzero() for key, x in self.pieces.items())

    def covariances(self, other: Forms) -> Floats:
        """Return the covariances of the rows of both, one by one, (J,), in products of their units.

        They are exact for Gaussian noise, and at least those of the discrete noise.

        Raises:
            ReleaseError: Some rows are from a combination, and others from a release in it. Or they are from two
                periods of one series.
        """
        refuse_shared_noise({*self.sources, *other.sources})
        out = np.zeros(self.length)
        for (source, table), x in self.pieces.items():
            for (theirs, other_table), y in other.pieces.items():
                if source == theirs:  # the noise of different sources is independent
                    out += _covariances(source, (table, x), (other_table, y))
        return out

    def entries(self, row: int) -> Iterator[tuple[AnswerSource, int, Indices, Floats]]:
        """Yield the content of a form: source, table, indices of its numbers along columns (−1: sum), coefficients."""
        for (source, table), x in self.pieces.items():
            span = slice(x.indptr[row], x.indptr[row + 1])
            if x.indices[span].size:
                indices = _unfolded(source, table, x.indices[span])
                yield source, table, indices, x.data[span]

    def tensors(self, row: int) -> dict[AnswerSource, dict[str, Floats]]:
        """Return one form: by measured part and table's name, the coefficients of the table's numbers, in its shape."""
        by_source: dict[AnswerSource, dict[str, Floats]] = {}
        for (source, table), x in self.pieces.items():
            if x.indptr[row] < x.indptr[row + 1]:
                by_source.setdefault(source, {})[_name(source, table)] = _tensor(source, table, x, row)
        return {
            part: part_tensors
            for source, tables in by_source.items()
            for part, part_tensors in source.traced(tables).items()
        }


def refuse_shared_noise(sources: Collection[AnswerSource]) -> None:
    """Raise ReleaseError if two of the sources share noise, or are periods of one series."""
    parts = [part for source in sources for part in source.parts]
    if len(set(parts)) < len(parts):
        raise ReleaseError(
            "combination-with-its-release",
            "Some of the numbers are of a combination, and others of a release in it.",
            "They contain the same noise.",
            "Take both numbers from the combination.",
            UNCOMPUTED,
        )
    # two periods of one series have the same plan of all periods: the later answers contain the earlier ones
    wholes = ((p.with_measured_design, p.with_measured_design.complete) for p in parts)
    series = [complete.publication for measured, complete in wholes if complete is not measured]
    if any(x in series[:i] for i, x in enumerate(series)):
        raise ReleaseError(
            "two-periods-of-series",
            "Two releases are of one series.",
            "The later release holds the earlier one.",
            "Take the numbers of both periods from the later release.",
            UNCOMPUTED,
        )


def _unfolded(source: AnswerSource, table: int, flat: npt.NDArray[np.integer[Any]]) -> Indices:
    """Return the row along each column, or −1 for a sum, of numbers in the order of `source.shape`, (columns, P)."""
    shape = source.shape(table)
    if not shape:
        return np.zeros((0, len(flat)), dtype=np.intp)
    indices = np.stack(np.unravel_index(flat, shape))
    return np.where(indices == np.array(shape)[:, None] - 1, -1, indices)


def _tensor(source: AnswerSource, table: int, x: sp.csr_array, row: int) -> Floats:
    """Return the coefficients of one row for a table's numbers; a coefficient of a sum goes to all its numbers."""
    out = x[[row]].toarray().reshape(source.shape(table))
    for axis in range(out.ndim):
        last = out.shape[axis] - 1
        out = out.take(range(last), axis=axis) + out.take([last], axis=axis)
    return np.asarray(out)


def _covariances(source: AnswerSource, mine: tuple[int, sp.csr_array], theirs: tuple[int, sp.csr_array]) -> Floats:
    """Return the covariances of two tables' forms of one source, row by row, (J,).

    mine, theirs: A table by its index, and the coefficients of its numbers, (J, numbers).
    """
    (table, x), (other_table, y) = mine, theirs
    # SciPy's indices may have 32 bits, which the products below exceed
    long, short = np.diff(x.indptr).astype(np.int64), np.diff(y.indptr).astype(np.int64)
    pairs, out = long * short, np.zeros(len(long))
    tall = any(_tall(source.part, t) for t in (table, other_table))
    # three ways: sums that the mechanism computes at once, then all numbers by sector, then pair by pair
    for many in _pieces(np.flatnonzero(pairs > MAX_PAIRS_DIRECT), long + short):
        these, those = (
            WeightedSums.from_coefficients(source.part, t, _unfolded(source, t, z.indices), z)
            for t, z in ((table, x[many]), (other_table, y[many]))
        )
        added = source.sums(these, those, len(many))
        if added is None:
            break
        out[many], pairs[many] = added, 0  # these rows have no pairs left for the ways below
    # by sector: each row costs one pass over both tables, for any number of pairs
    heavy = pairs > (0 if tall else MAX_PAIRS_SPARSE)
    for row in np.flatnonzero(heavy).tolist():
        f, h = ({_name(source, t): _tensor(source, t, z, row)} for t, z in ((table, x), (other_table, y)))
        out[row] = rebuilding.covariance(source.part, f, h)
    for rows in _pieces(np.flatnonzero(~heavy & (pairs > 0)), pairs):
        # the number of each pair within its row, which counts the entries of y fastest
        inside = np.arange(int(pairs[rows].sum())) - np.repeat(np.cumsum(pairs[rows]) - pairs[rows], pairs[rows])
        which = np.repeat(rows, pairs[rows])
        x_entry, y_entry = np.divmod(inside, short[which])
        i, j = x.indptr[which] + x_entry, y.indptr[which] + y_entry
        one = TableNumbers(source.part, table, _unfolded(source, table, x.indices[i]))
        other = TableNumbers(source.part, other_table, _unfolded(source, other_table, y.indices[j]))
        products = source.covariance(one, other) * x.data[i] * y.data[j]
        out += np.bincount(which, products, minlength=len(out))
    return out


def _pieces(rows: Indices, held: Indices) -> Iterator[Indices]:
    """Yield rows in order, in groups that hold at most `NUMBERS_PER_BATCH` numbers, or in groups of one row.

    rows: The indices of the rows.
    held: The count of numbers held for each row, also for rows that are not yielded.
    """
    ends, start = np.cumsum(held[rows]), 0
    while start < len(rows):
        done = ends[start - 1] if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, done + NUMBERS_PER_BATCH, side="right")))
        yield rows[start:stop]
        start = stop


def _name(source: AnswerSource, table: int) -> str:
    return source.part.publication.workload.tables[table].name


def _tall(part: SectorTablesPart, table: int) -> bool:
    """Return True if a table has too many structured rows to write the cells of each."""
    if part.decomposition.blocks:
        return False  # A block shows one class of each attribute, so it has few structured rows.
    group, _ = part.decomposition.group_of(table)
    rows = np.prod([n + 1.0 for n in group.inner_shape])  # as floats: the product may exceed 64 bits
    return bool(rows * part.decomposition.cells > MAX_ROWS_TIMES_CELLS)
