"""Ky Fan noise for a small database, as a mechanism for tables: projection (Nikolov 2015)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, final

import numpy as np

from fitnoise.errors import PlanError
from fitnoise.kernel.arrays import Exact, Floats
from fitnoise.kernel.order import DeclaredSize
from fitnoise.kernel.units import Region
from fitnoise.mechanisms._base import BiasedEstimator, TableMechanism
from fitnoise.mechanisms.gaussian.mechanism import SectorCodec, SectorDescriptions, SectorErrors, SectorProof
from fitnoise.mechanisms.projection import report
from fitnoise.mechanisms.projection.estimator import ProjectedTables
from fitnoise.mechanisms.projection.row_space_view import RowSpaceView
from fitnoise.messages import Message
from fitnoise.reporting import Section
from fitnoise.solving.certificates import Certificate, ky_fan_certificate

if TYPE_CHECKING:
    from fitnoise.mechanisms.tables import TablePart


@final
class ProjectionCodec(SectorCodec):
    """Strategies by sectors for a small database: one sector of all queries."""

    def check(self, part: TablePart) -> None:
        """Raise PlanError unless the part is for a small database, and measures its one sector."""
        RowSpaceView(part)
        super().check(part)

    def sizes(self, part: TablePart) -> tuple[DeclaredSize, ...]:
        """Return the declared size: an upper bound, or the exact number."""
        small = RowSpaceView(part).small
        return (DeclaredSize(small.size, small.region is Region.EXACTLY),)


@final
class ProjectionProof(SectorProof):
    """The least sum of variances of any noise."""

    def objective_value(self) -> float:
        """Return ‖Σ‖_(k) of the noise, scaled to sensitivity 1."""
        return self.part.certificate.value

    def certificate(self) -> Certificate:
        """Return the value, and the lower bound for all noise, in row space."""
        evidence, cells = self.part.evidence, self.part.evidence.cells
        # The evidence comes from the document, and the certificate of a Ky Fan design reads cell weights only.
        if evidence.numbers.size or evidence.pairs is not None or cells.shape != (self.part.decomposition.cells,):
            raise PlanError(
                "evidence-not-cell-weights",
                "The evidence of a Ky Fan design in the plan is not a list of weights for all cells.",
                "",
                "Use the plan as fitnoise wrote it, or plan again.",
                "Nothing was measured.",
            )
        view = RowSpaceView(self.part)
        return ky_fan_certificate(view.space.rows, cells, view.noise_factor, view.index, view.space.shift)

    def unbiased_bound(self) -> float | None:
        """Return None: the released values are biased."""
        return None

    def universal_epsilon(self) -> float | None:
        """Return None: the errors of biased values adapt to the data."""
        return None

    def prices(self) -> Floats:
        """Return the share of every table row in the weighted total variance, (M,)."""
        shares = self.part.variances / self.part.decomposition.variances
        return np.asarray(shares / shares.sum())


@final
class ProjectionDescriptions(SectorDescriptions):
    """The descriptions of the noise, and of the estimate of a database of the declared size."""

    price_heading = Message("report.heading.share_of_variance")

    def describe_bias(self) -> tuple[Message, ...]:
        """Return the statement on the bias of the values."""
        return report.values(RowSpaceView(self.part).small)

    def report_setting(self) -> Section:
        """Return the section on measurement and estimation."""
        return report.database(RowSpaceView(self.part).small, RowSpaceView(self.part).setting)

    def report_proof(self) -> Iterator[Section]:
        """Yield the section on the least sum of variances of any noise."""
        yield report.proof(self.part.certificate, RowSpaceView(self.part).setting)

    def release_entries(self) -> dict[str, Any]:
        """Return the declared size and the setting."""
        small, setting = RowSpaceView(self.part).small, RowSpaceView(self.part).setting
        return {
            "size": small.size,
            "region": small.region.value,
            "index": setting.index,
            "temperature": setting.temperature,
            "variant": small.variant.value,
        }


@final
class Projection(BiasedEstimator):
    """The estimator for a small database.

    Its tables are those of one histogram of at most the declared size, or of exactly this size if so declared. The
    paper's variant has no histogram.
    """

    def is_synthetic(self) -> bool:
        """Return True if all tables are those of one histogram, that is, except for the paper's variant."""
        return RowSpaceView(self.part).head is None

    def rebuild(self, answers: Sequence[Exact], histogram: Floats | None = None) -> ProjectedTables:
        """Return the tables of the estimate."""
        return ProjectedTables(self.part, answers, histogram)


PROJECTION = TableMechanism(
    "projection", ProjectionCodec(), SectorErrors, ProjectionProof, ProjectionDescriptions, estimator=Projection
)
