"""Define exact probabilities: rows of integers with one sum, and the largest ratio between neighbouring rows.

The entry of row i and output o is w_io = values[codes_io] · columns_o. One output gathers the rest of the rows, so it
has residual_i added. All are integers, and all rows have one sum N, so that

    P(o | i) = w_io / N,    P(o | i) / P(o | j) = w_io / w_jo.

The law of the number of random words of a draw depends on N alone, so this number reveals nothing about i. This form
holds every mechanism of this package with a table. With few values, few pairs of them give the largest ratio.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from operator import mul
from typing import Any, final

import numpy as np
import numpy.typing as npt

from fitnoise.errors import PlanError
from fitnoise.kernel.arrays import Floats, Integers

_PAIRS = 2**21
"""The number of pairs of entries that are compared at once."""

_MARKED = 2**26
"""The largest number of pairs of values for which a table marks the seen ones, a byte each; more are collected."""

_EXACT_OUTPUTS = 2**23
"""The largest number of outputs for which sums of pieces of 30 bits are exact in doubles."""


@final
@dataclass(frozen=True, eq=False)
class IntegerWeights:
    """Integers in proportion to which outputs are drawn.

    Attributes:
        values: The integers that codes stand for, at least 0.
        codes: The positions in `values`, (n_in, n_out).
        columns: The factors of the outputs, (n_out,), at least 0.
        residual: The integers added to the entries of one output, (n_in,). One may be negative, if its entry with it is
            not.
        sink: The output to which the residual is added.

    Raises:
        PlanError: Shapes do not fit, an entry is negative or not a Python integer, or the rows have different sums or
            the sum 0.

    **Guarantees**

    - Every entry is at least 0, and every row has the sum `total`; this is checked in integers when the weights are
      made.
    """

    values: tuple[int, ...]
    codes: Integers
    columns: tuple[int, ...]
    residual: tuple[int, ...]
    sink: int

    def __post_init__(self) -> None:
        raw = np.asarray(self.codes)
        codes = raw if raw.dtype.kind in "iu" else raw.astype(np.int64)
        for name in ("values", "columns", "residual"):
            numbers = tuple(getattr(self, name))
            object.__setattr__(self, name, numbers)
            if not set(map(type, numbers)) <= {int}:  # Other types could wrap around, and no proof would hold.
                raise PlanError(
                    "weights-not-python-integers",
                    "The values, columns or residual of weights are not integers of Python.",
                    "Other types could overflow and make the proof invalid.",
                    "Give integers of Python.",
                    "No mechanism was made.",
                )
        rows, outputs = codes.shape
        shapes = len(self.columns) == outputs and len(self.residual) == rows and 0 <= self.sink < outputs
        if not shapes or codes.min() < 0 or codes.max() >= len(self.values):
            raise PlanError(
                "weights-parts-misfit",
                "The codes, columns, residual and sink of weights do not fit together.",
                "The residual has one number for each row, and the columns have one for each output. Each code is a "
                "position among the values, and the sink is a position among the outputs.",
                "Give parts of these lengths, and such positions.",
                "No mechanism was made.",
            )
        narrow = next(x for x in (np.int16, np.int32, np.int64) if len(self.values) <= np.iinfo(x).max)
        codes = codes.astype(narrow)  # A copy, of numbers known to fit: draws use the integers of the proof.
        codes.setflags(write=False)
        object.__setattr__(self, "codes", codes)
        if min(self.values) < 0 or min(self.columns) < 0 or min(self.gathering) < 0:
            raise PlanError(
                "weight-negative",
                "A weight is below 0.",
                "Weights are proportional to probabilities, which are at least 0.",
                "Give weights of at least 0.",
                "No mechanism was made.",
            )
        sums = self._sums
        if len(set(sums)) != 1 or sums[0] <= 0:
            raise PlanError(
                "weight-sums-differ",
                "The rows of the weights do not have one positive sum.",
                "",
                "Give rows with one positive sum.",
                "No mechanism was made.",
            )

    @property
    def total(self) -> int:
        """The sum N of every row."""
        return self._sums[0]

    @cached_property
    def _sums(self) -> tuple[int, ...]:
        return tuple(s + r for s, r in zip(row_sums(self.values, self.codes, self.columns), self.residual, strict=True))

    @cached_property
    def gathering(self) -> tuple[int, ...]:
        """The weight w_io of every row i for the output o = `sink`, its residual included, (n_in,)."""
        z = self.columns[self.sink]
        return tuple(self.values[c] * z + r for c, r in zip(self.codes[:, self.sink], self.residual, strict=True))

    def row(self, i: int) -> tuple[int, ...]:
        """Return all weights of a row, (n_out,)."""
        weights = [self.values[c] * z for c, z in zip(self.codes[i], self.columns, strict=True)]
        weights[self.sink] += self.residual[i]
        return tuple(weights)

    def probabilities(self) -> Floats:
        """Return the probabilities w / N, (n_in, n_out), each right to 2⁻⁵⁰ relative, or below 2⁻¹⁰⁰⁰."""
        # Divided by the largest value first: quotients of Python integers are right at any size, floats could overflow.
        top = max(1, *self.values)
        values = np.array([v / top for v in self.values])
        columns = np.array([z * top / self.total for z in self.columns])
        table: Floats = values[self.codes]
        table *= columns
        table[:, self.sink] = [g / self.total for g in self.gathering]
        return table

    def largest_ratio(self, edges: npt.NDArray[Any]) -> Fraction | None:
        """Return the exact largest P(o | i) / P(o | j) over edges i, j in both directions and all outputs o.

        It is at least 1, as both directions count.

        Returns:
            The ratio; None if no number bounds it, since an output is possible from one end of an edge only.
        """
        best = Fraction(1)
        pairs = [(self.gathering[i], self.gathering[j]) for i, j in edges.tolist()]
        for a, b in [*pairs, *self._pairs(edges)]:
            low, high = (a, b) if a < b else (b, a)
            if high and not low:
                return None
            # Cross products are exact, and reduce no fraction for each of the many pairs.
            if high * best.denominator > best.numerator * low:
                best = Fraction(high, low)
        return best

    def _pairs(self, edges: npt.NDArray[Any]) -> list[tuple[int, int]]:
        """Return the distinct pairs of values at the two ends of an edge, for any output other than the sink.

        Outputs whose column is 0 do not count.

        Args:
            edges: Pairs of rows, (E, 2).
        """
        has_weight = np.array([z > 0 for z in self.columns])
        # Two entries of one column have the ratio of their values; this fails where a residual is added.
        has_weight[self.sink] = False
        codes, size = self.codes[:, has_weight], len(self.values)
        step = max(1, _PAIRS // max(1, codes.shape[1]))
        marked = np.zeros(size**2 if size**2 <= _MARKED else 0, dtype=np.bool_)
        seen = np.zeros(0, dtype=np.int64)
        for start in range(0, len(edges), step):
            one, other = codes[edges[start : start + step].T]
            pairs = one.astype(np.int64) * size + other
            if len(marked):
                marked[pairs] = True
            else:
                seen = np.union1d(seen, pairs)
        indices = np.flatnonzero(marked) if len(marked) else seen
        return [(self.values[a], self.values[b]) for a, b in (divmod(p, size) for p in indices.tolist())]


def row_sums(values: Sequence[int], codes: Integers, columns: Sequence[int]) -> list[int]:
    """Return Σ_o values[codes_io] columns_o for every row i, exactly, for values and columns of at least 0.

    The columns are cut into pieces of 30 bits, and the values into pieces of 32 bits less the length of n_out. Sums of
    products of pieces are then exact in 62 bits. Python adds up rows with more values than outputs, or more than
    `_EXACT_OUTPUTS` outputs.
    """
    # With more values than outputs, about every entry has its own code, and there is nothing to collect.
    if len(values) > codes.shape[1] or codes.shape[1] > _EXACT_OUTPUTS:
        return [sum(map(mul, map(values.__getitem__, row), columns)) for row in codes.tolist()]
    pieces, size = _pieces(columns), len(values)
    # Sums of column pieces times value pieces are below 2^30 n_out 2^short, hence below 2^62.
    short = 62 - 30 - codes.shape[1].bit_length()
    length = max(1, -(-max(values).bit_length() // short))
    limbs = np.array([[v >> short * p & (1 << short) - 1 for p in range(length)] for v in values], dtype=np.int64)
    totals = []
    for row in codes:
        # `bincount` adds doubles: sums of pieces below 2^30 n_out fit in 53 bits, and are exact.
        of_codes = np.array([np.bincount(row, piece, size) for piece in pieces]).astype(np.int64)
        sums = (of_codes @ limbs).tolist()  # Whole numbers: no rounding, in any order.
        totals.append(sum(x << 30 * i + short * p for i, limb_sums in enumerate(sums) for p, x in enumerate(limb_sums)))
    return totals


def _pieces(columns: Sequence[int]) -> list[Floats]:
    """Return columns in base 2^30, lowest first, as floats: sums of up to `_EXACT_OUTPUTS` of them are exact."""
    length = max(1, -(-max(columns).bit_length() // 30))
    return [np.array([float(z >> 30 * p & (1 << 30) - 1) for z in columns]) for p in range(length)]
