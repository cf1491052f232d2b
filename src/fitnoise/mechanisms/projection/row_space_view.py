"""A small database's tables in row space, in which its noise and its estimate are computed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np

from fitnoise.errors import PlanError
from fitnoise.kernel.arrays import Floats
from fitnoise.mechanisms.projection.regions import entropy_weight
from fitnoise.mechanisms.tables import TablePart
from fitnoise.request.publication import Setting, SmallDatabase, Variant
from fitnoise.solving.row_space import RowSpace, row_space


@final
@dataclass(frozen=True, eq=False)
class RowSpaceView:
    """A part of a plan for a small database, in row space.

    Raises:
        PlanError: The part is not for a small database.
    """

    part: TablePart

    def __post_init__(self) -> None:
        self._settings  # noqa: B018 - raises

    @cached_property
    def _settings(self) -> tuple[SmallDatabase, Setting]:
        small, setting = self.part.publication.small_database, self.part.setting
        if small is None or setting is None:
            raise PlanError(
                "plan-not-for-small-database",
                "The plan has the projection mechanism without a small database, or a small database without "
                "that mechanism.",
                "",
                "Use the plan as fitnoise wrote it, or plan again.",
                "Nothing was measured.",
            )
        return small, setting

    @property
    def small(self) -> SmallDatabase:
        """The declared properties of the database."""
        return self._settings[0]

    @property
    def setting(self) -> Setting:
        """The index of the noise, and the temperature of the estimate."""
        return self._settings[1]

    @property
    def index(self) -> int:
        """The index k of the noise."""
        return self.setting.index

    @cached_property
    def space(self) -> RowSpace:
        """The queries in row space."""
        return row_space(self.part.decomposition)

    @cached_property
    def noise_factor(self) -> Floats:
        """F (r, r), where the covariance of the noise in row space is F Fᵀ, in people²."""
        ((whitener,),) = self.part.estimation.whiteners
        return np.asarray(self.space.triangle @ whitener)

    @cached_property
    def head(self) -> Floats | None:
        """The first k directions of row space (r, k), which stay as measured in the paper's variant; None otherwise."""
        if self.small.variant is not Variant.PAPER:
            return None
        q = self.part.evidence.cells / self.part.evidence.cells.sum()
        # The eigenvectors of R diag(q) Rᵀ, q the cell weights: those of Σ are not unique if its variances are equal.
        vectors = np.linalg.eigh((self.space.rows * q) @ self.space.rows.T)[1]
        return np.asarray(vectors[:, ::-1][:, : self.index])

    @cached_property
    def penalty(self) -> float:
        """λ of the entropic estimate: τ times the mean over cells of the standard deviation of noise along a column."""
        return entropy_weight(self.space.rows, self.noise_factor, self.setting.temperature)
