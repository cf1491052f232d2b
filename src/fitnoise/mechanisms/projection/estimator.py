"""Tables of a small database: those of one histogram close to the noisy answers. This module only post-processes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import final

import numpy as np

from fitnoise.errors import ReleaseError
from fitnoise.kernel.arrays import Exact, Floats, Indices
from fitnoise.kernel.units import Region
from fitnoise.mechanisms.projection.errors import SimulatedErrors, simulated_errors
from fitnoise.mechanisms.projection.regions import Estimator
from fitnoise.mechanisms.projection.row_space_view import RowSpaceView
from fitnoise.mechanisms.rebuilding import RebuiltTables
from fitnoise.mechanisms.tables import TablePart

SUM_TOLERANCE = 1e-9
"""Allowed relative rounding error in the sum of a histogram."""

ENTROPIC_GAP = 1e-11
"""Gap of an entropic estimate, as part of the squared length of the noisy answers."""


@final
class ProjectedTables(RebuiltTables):
    """Tables of a small database: those of one histogram of at most, or exactly, its size, fitted to the noisy answers.

    For the paper's variant `histogram` is empty: no histogram exists, and tables agree but may be negative.

    Args:
        part: The part of a small database.
        answers: Its noisy answers.
        histogram: The released x ≥ 0 (N,); None computes it.

    Raises:
        ReleaseError: The answers are not the plan's, or the histogram does not fit a database of that size.

    **Guarantees**
        * Except for the paper's variant, every table is that of the histogram. So tables agree on common margins, and
          no count is negative.
        * The result depends on noisy answers and public numbers only, so it is post-processing.
    """

    def __init__(self, part: TablePart, answers: Sequence[Exact], histogram: Floats | None = None) -> None:
        super().__init__(part, answers)
        self._small_part, view = part, RowSpaceView(part)
        self.view, small = view, view.small
        ((theta,),) = (self._estimation.estimates(self._answers, 0, np.array([0])),)
        self.noisy = view.space.triangle @ theta
        self._size, self._region = float(small.size), small.region
        self._estimate = Estimator(view.space.rows, self._size, small.region, view.penalty, view.head)
        if histogram is None or view.head is not None:
            # An entropic estimate is solved to a part of ‖y‖², the nearest answers to the default tolerance of a
            # projection.
            tolerance = ENTROPIC_GAP * float(self.noisy @ self.noisy) if view.penalty else None
            nearest, self._answers_there = self._estimate(self.noisy, tolerance)
            self.histogram = np.zeros(0) if nearest is None else nearest
        else:
            self.histogram = self._checked(histogram)
            self._answers_there = view.space.rows @ self.histogram

    def _checked(self, x: Floats) -> Floats:
        total, n = float(x.sum()), self._size
        exact = self._region is Region.EXACTLY
        fits = x.shape == (self.part.decomposition.cells,) and bool(np.isfinite(x).all()) and bool((x >= 0).all())
        # The histogram comes from a file; its sum was rounded when it was written.
        if not fits or total > n * (1 + SUM_TOLERANCE) or (exact and total < n * (1 - SUM_TOLERANCE)):
            raise ReleaseError(
                "histogram-of-another-size",
                "The histogram does not belong to a database of the plan's size.",
                "",
                "Give the histogram of this release.",
                "Nothing was rebuilt.",
            )
        return x

    @cached_property
    def simulated(self) -> SimulatedErrors:
        """Simulated errors of its values, by table row; they depend on the plan only."""
        return simulated_errors(self._small_part)

    @property
    def has_histogram(self) -> bool:
        """True if there is a histogram, that is, except for the paper's variant."""
        return self.view.head is None

    @property
    def gap(self) -> float:
        """Bound on the distance of the histogram from the best one, recomputed: in people², over all weighted numbers.

        For nearest answers, it bounds the squared distance to the exact nearest answers. For an entropic estimate, it
        bounds the excess of the objective over its minimum.
        """
        return self._estimate.gap(self.noisy, self.histogram)

    @property
    def distance(self) -> float:
        """Squared distance of the answers from the noisy answers, in people², over all weighted numbers."""
        off = self._answers_there - self.noisy
        return float(off @ off)

    def estimates(self, group: int, sectors: Indices) -> Floats:
        """Return the answers to the basis queries by the histogram, or by the paper's variant, (1, r)."""
        if self.view.head is not None:
            return np.asarray(np.linalg.solve(self.view.space.triangle, self._answers_there))[None]
        return (self.part.decomposition.groups[group].basis @ self.histogram)[None]
