"""Ky Fan noise for a small database, as a mechanism for tables: projection (Nikolov 2015)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, final

import numpy as np

from fitnoise.errors import PlanError
from fitnoise.kernel.arrays import Exact, Floats
from fitnoise.kernel.order import DeclaredSize
from fitnoise.kernel.units import Region
from fitnoise.mechanisms.gaussian.mechanism import SectorMechanism
from fitnoise.mechanisms.projection import report
from fitnoise.mechanisms.projection.estimator import ProjectedTables
from fitnoise.mechanisms.projection.row_space_view import RowSpaceView
from fitnoise.messages import Message
from fitnoise.reporting import Section
from fitnoise.request.publication import Publication
from fitnoise.solving.certificates import Certificate, ky_fan_certificate

if TYPE_CHECKING:
    from fitnoise.mechanisms.tables import TablePart


@final
class ProjectionMechanism(SectorMechanism):
    """Noise of a Ky Fan design on all queries; released are the answers of a database of the declared size."""

    name = "projection"
    unbiased = False
    price_heading = Message("report.heading.share_of_variance")

    def is_default_for(self, request: Publication) -> bool:
        """Return True for tables of a small database."""
        return request.small_database is not None

    def check(self, part: TablePart) -> None:
        """Raise PlanError unless the part is for a small database, and measures its one sector."""
        RowSpaceView(part)
        super().check(part)

    def sizes(self, part: TablePart) -> tuple[DeclaredSize, ...]:
        """Return the declared size: an upper bound, or the exact number."""
        small = RowSpaceView(part).small
        return (DeclaredSize(small.size, small.region is Region.EXACTLY),)

    def objective_value(self, part: TablePart) -> float:
        """Return ‖Σ‖_(k) of the noise, scaled to sensitivity 1."""
        return part.certificate.value

    def certificate(self, part: TablePart) -> Certificate:
        """Return the value, and the lower bound for all noise, in row space."""
        cells = part.evidence.cells
        # The evidence comes from the document, and the certificate of a Ky Fan design reads cell weights only.
        if part.evidence.numbers.size or part.evidence.pairs is not None or cells.shape != (part.decomposition.cells,):
            raise PlanError(
                "evidence-not-cell-weights",
                "The evidence of a Ky Fan design in the plan is not a list of weights for all cells.",
                "",
                "Use the plan as fitnoise wrote it, or plan again.",
                "Nothing was measured.",
            )
        view = RowSpaceView(part)
        return ky_fan_certificate(view.space.rows, cells, view.noise_factor, view.index, view.space.shift)

    def prices(self, part: TablePart) -> Floats:
        """Return the share of every table row in the weighted total variance, (M,)."""
        shares = part.variances / part.decomposition.variances
        return np.asarray(shares / shares.sum())

    def describe_bias(self, part: TablePart) -> tuple[Message, ...]:
        """Return the statement on the bias of the values."""
        return report.values(RowSpaceView(part).small)

    def report_setting(self, part: TablePart) -> Section:
        """Return the section on measurement and estimation."""
        return report.database(RowSpaceView(part).small, RowSpaceView(part).setting)

    def report_proof(self, part: TablePart) -> Iterator[Section]:
        """Yield the section on the least sum of variances of any noise."""
        yield report.proof(part.certificate, RowSpaceView(part).setting)

    def synthetic(self, part: TablePart) -> bool:
        """Return True if all tables are those of one histogram, that is, except for the paper's variant."""
        return RowSpaceView(part).head is None

    def biased(self, part: TablePart, answers: Sequence[Exact], histogram: Floats | None = None) -> ProjectedTables:
        """Return the tables of one histogram of a database of the declared size."""
        return ProjectedTables(part, answers, histogram)

    def release_entries(self, part: TablePart) -> dict[str, Any]:
        """Return the declared size and the setting."""
        small, setting = RowSpaceView(part).small, RowSpaceView(part).setting
        return {
            "size": small.size,
            "region": small.region.value,
            "index": setting.index,
            "temperature": setting.temperature,
            "variant": small.variant.value,
        }


PROJECTION = ProjectionMechanism()
