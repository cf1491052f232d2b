"""A small database's tables in row space: what its noise and its estimate are looked at in."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np

from fitnoise.errors import PlanError
from fitnoise.kernel.arrays import Floats
from fitnoise.mechanisms.projection.regions import entropy_weight
from fitnoise.mechanisms.tables import TablePart
from fitnoise.request.publication import Variant
from fitnoise.solving.row_space import RowSpace, row_space


@final
@dataclass(frozen=True, eq=False)
class View:
    """A part for a small database in row space. of: the part."""

    of: TablePart

    @property
    def index(self) -> int:
        """K of the noise."""
        if self.of.setting is None:
            raise PlanError("only a plan for a small database is looked at in row space.")
        return self.of.setting.index

    @cached_property
    def space(self) -> RowSpace:
        """The queries in row space."""
        return row_space(self.of.decomposition)

    @cached_property
    def noise_factor(self) -> Floats:
        """F (r, r), where the covariance of the noise in row space is F Fᵀ, in people²."""
        ((whitener,),) = self.of.estimation.whiteners
        return np.asarray(self.space.triangle @ whitener)

    @cached_property
    def head(self) -> Floats | None:
        """Of the paper's variant, the first k directions of row space (r, k), which stay as measured; None of others.

        They are the leading eigenvectors of R diag(q) Rᵀ: those of Σ are not determined where its variances are equal.
        """
        small = self.of.publication.small
        if small is None or small.variant is not Variant.PAPER:
            return None
        q = self.of.evidence.cells / self.of.evidence.cells.sum()
        vectors = np.linalg.eigh((self.space.rows * q) @ self.space.rows.T)[1]
        return np.asarray(vectors[:, ::-1][:, : self.index])

    @cached_property
    def penalty(self) -> float:
        """λ of the entropic estimate: τ times the mean over cells of the standard deviation of noise along a column."""
        assert self.of.setting is not None  # noqa: S101 - asked of small databases only
        return entropy_weight(self.space.rows, self.noise_factor, self.of.setting.temperature)
