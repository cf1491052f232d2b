"""Lower bounds on the error of any private mechanism, from the spectrum of the queries."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
import scipy.linalg as sl

from fitnoise.algebra.backends import one_thread
from fitnoise.errors import WorkloadError
from fitnoise.kernel.arrays import Floats
from fitnoise.kernel.checks import checked_integer
from fitnoise.solving.ky_fan import KyFanDesign

OUT, IN = 3, 8
"""Numbers of columns that an exchange tries to drop, and to add."""

MIN_RELATIVE_GAIN = 1e-3
"""Relative gain of a set of columns below which it is treated as zero, so that exchanges end."""


@final
@dataclass(frozen=True)
class SpectralBound:
    """A set S of cells whose columns A_S of the m queries A are far from linearly dependent.

    index: k, the number of eigenvalues in the Ky Fan norm of the design.
    subset: S, in rising order (|S|,), at most k cells.
    value: √(|S|/m) σ_min(A_S), rounded down.
    ratio: (‖Σ‖_(k)/m)^½ over the value, at least 1, with Σ of the design.
    """

    index: int
    subset: tuple[int, ...]
    value: float
    ratio: float


def spectral_bound_of(rows: Floats, m: int, subset: Sequence[int]) -> float:
    """Return √(|S|/m) σ_min(A_S) of a subset of cells, rounded down; 0 if its columns are dependent.

    Args:
        rows: The queries R (r, N), with the singular values of A.
        m: The number of queries.
        subset: The indices of the cells in S.

    Raises:
        WorkloadError: The subset is empty, has a cell twice, or names a cell that does not exist. The number m of
            queries is not an integer of at least 1.
    """
    places = [int(e) for e in subset]
    if not places or len(set(places)) < len(places) or not all(0 <= e < rows.shape[1] for e in places):
        raise WorkloadError(
            "subset-of-cells",
            f"The subset is {places}.",
            "",
            f"Give at least one of the {rows.shape[1]} cells, each once.",
            "Nothing was computed.",
        )
    # More columns than dimensions are dependent.
    if len(places) > len(rows):
        return 0.0
    values = sl.svdvals(rows[:, places])
    # Rounded down: the backward error of singular values is a small multiple of ε times the largest one.
    rounding = 8 * max(len(rows), len(places)) * float(np.finfo(np.float64).eps) * float(values[0])
    return math.sqrt(len(places) / checked_integer("m", m)) * max(float(values[-1]) - rounding, 0.0)


def spectral_lower_bound(rows: Floats, m: int, design: KyFanDesign) -> SpectralBound:
    """Return a lower estimate of SpecLB(k, A) = max_{|S|≤k} √(|S|/m) σ_min(A_S), with the set that reaches it.

    It states how competitive the noise is; it is no statement about privacy. Let k = ε n. On
    some database, any (ε, δ)-private mechanism has root mean squared error at least (c/ε) SpecLB(k, A). The paper does
    not state the constant c. The error of Lemma 3.0.2 is at most (μ/m)^½/ε, times a constant and roots of logarithms of
    N and 1/δ. `ratio` is the quotient of the two, of the order of log k at most. A part of it is due to the search.

    **Correction.** The paper prints √(k/m) for √(|S|/m). That is no lower bound. For one query repeated, the maximum is
    at |S| = 1 and grows with k, while n does not change the cost of the query. The proof has |S|.

    **Method.** Sets start as the first k and 2k columns of QR with column pivoting. The pivoted matrices are R, R q^½
    and its parts on and off the spikes, with q the weights of the design. One column at a time is dropped, the nearest
    to the span of the others. Exchanges of one cell then improve the best of all these sets.

    Args:
        rows: The queries R (r, N).
        m: The number of queries.
        design: The design, for its k, weights and eigenvectors.

    Raises:
        WorkloadError: m is not an integer of at least 1, or the design is for other queries.

    **Guarantees**
        * value² m ≤ μ ≤ ‖Σ‖_(k), where μ is the least ‖Σ‖_(k) of any noise. The bound of the design with q uniform on S
          proves it.
        * The value is recomputed from the subset. A poor search makes it small, never wrong.

    **Source.** Theorem 2.1, corrected; the search is this project's.
    """
    if design.basis.shape[0] != len(rows) or len(design.weights) != rows.shape[1]:
        raise WorkloadError(
            "design-of-other-queries",
            "The design belongs to other queries than these rows.",
            "",
            "Give the design of these queries.",
            "Nothing was computed.",
        )
    with one_thread():
        search = _Subsets(rows, design.index)
        weighted = rows * np.sqrt(design.weights)
        components, t = design.basis.T @ weighted, design.spikes
        for part in (rows, weighted, components[:t], components[t:]):
            if part.size:
                search.eliminate(part)
        search.exchange()
    subset = tuple(sorted(search.best))
    value = spectral_bound_of(rows, m, subset)
    return SpectralBound(design.index, subset, value, math.sqrt(design.value / m) / value)


@final
class _Subsets:
    """The best set of at most k columns so far, by |S| σ_min²."""

    def __init__(self, rows: Floats, k: int) -> None:
        self.gram, self.k = rows.T @ rows, k
        self.lengths = self.gram.diagonal().copy()
        longest = int(np.argmax(self.lengths))
        self.best, self.score = [longest], float(self.lengths[longest])

    def min_eigenvalue(self, places: list[int]) -> float:
        """Return σ_min² of a set of columns."""
        return float(sl.eigvalsh(self.gram[np.ix_(places, places)], subset_by_index=[0, 0], check_finite=False)[0])

    def update(self, places: list[int]) -> bool:
        """Record a set, and return True, if it is better than all sets before."""
        score = len(places) * self.min_eigenvalue(places)
        # Exchanges end, as each one raises the score by a fixed factor.
        if score <= self.score * (1 + MIN_RELATIVE_GAIN):
            return False
        self.best, self.score = list(places), score
        return True

    def eliminate(self, part: Floats) -> None:
        """Drop columns from the first pivots of a part of the queries, each the nearest to the span of the others."""
        triangle, order = sl.qr(part, mode="r", pivoting=True, check_finite=False)
        steps = np.abs(np.diagonal(triangle))
        # Columns beyond the numerical rank have no inverse Gram matrix.
        rank = int((steps > 1e-9 * steps[0]).sum())
        for count in sorted({min(self.k, rank), min(2 * self.k, rank)}):
            places = order[:count].tolist()
            try:
                inverse = sl.cho_solve(sl.cho_factor(self.gram[np.ix_(places, places)]), np.eye(count))
            except np.linalg.LinAlgError:
                continue
            while places:
                # 1/(G⁻¹)_jj is the squared distance of column j to the span of the others, at least σ_min².
                closest = int(np.argmax(inverse.diagonal()))
                # |S| over the entry bounds the score of S from above, so only sets that can win are evaluated.
                if len(places) <= self.k and len(places) > self.score * float(inverse[closest, closest]):
                    self.update(places)
                rest = np.arange(len(places)) != closest
                column = inverse[rest, closest]
                # The inverse without one column, in place of a new factorisation.
                inverse = inverse[np.ix_(rest, rest)] - np.outer(column, column) / inverse[closest, closest]
                del places[closest]

    def exchange(self) -> None:
        """Exchange one of the columns weakest in the weakest direction for one far from the others, while it helps."""
        while any(self.update([*columns, e]) for columns in self._weakened() for e in self._farthest_columns(columns)):
            pass

    def _weakened(self) -> Iterator[list[int]]:
        """Yield the best set less one of OUT columns, the weakest first."""
        places = self.best
        # Large entries of the eigenvector of σ_min belong to the columns that cause it.
        weak = sl.eigh(self.gram[np.ix_(places, places)], subset_by_index=[0, 0], check_finite=False)[1][:, 0] ** 2
        for j in np.argsort(-weak, kind="stable")[:OUT].tolist():
            yield places[:j] + places[j + 1 :]

    def _farthest_columns(self, columns: list[int]) -> list[int]:
        """Return the IN columns at the largest distances from the span of the kept columns."""
        distances = self.lengths.copy()
        if columns:
            across = self.gram[columns]
            distances -= (across * sl.cho_solve(sl.cho_factor(self.gram[np.ix_(columns, columns)]), across)).sum(axis=0)
        # The kept columns themselves.
        distances[columns] = -1.0
        return [e for e in np.argsort(-distances, kind="stable")[:IN].tolist() if distances[e] > 0]
