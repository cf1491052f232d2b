"""Ky Fan noise for a small database, as a mechanism for tables: projection (Nikolov 2015)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, final

import numpy as np

from fitnoise.errors import PlanError
from fitnoise.kernel.arrays import Exact, Floats
from fitnoise.kernel.order import Size
from fitnoise.kernel.units import Region
from fitnoise.mechanisms.gaussian.mechanism import Sectors
from fitnoise.mechanisms.projection import report
from fitnoise.mechanisms.projection.estimator import Projected
from fitnoise.mechanisms.projection.view import View
from fitnoise.reporting import Section
from fitnoise.request.publication import Publication
from fitnoise.solving.certificates import Certificate, ky_fan_certificate

if TYPE_CHECKING:
    from fitnoise.mechanisms.tables import TablePart


@final
class Projection(Sectors):
    """All queries with the noise of a Ky Fan design; released are answers of a database of the declared size."""

    name = "projection"
    unbiased = False
    share = "variance"

    def answers(self, asked: Publication) -> bool:
        """Tables of a small database."""
        return asked.small is not None

    def check(self, part: TablePart) -> None:
        """Raise PlanError unless it is for a small database, and measures its one sector."""
        View(part)
        super().check(part)

    def sizes(self, part: TablePart) -> tuple[Size, ...]:
        """The one that was declared: at most so many, or exactly."""
        small = View(part).small
        return (Size(small.size, small.region is Region.EXACTLY),)

    def value(self, part: TablePart) -> float:
        """‖Σ‖_(k) times the sensitivity."""
        return part.certificate.value

    def certificate(self, part: TablePart) -> Certificate:
        """That, and what no noise is below, in row space."""
        cells = part.evidence.cells
        if part.evidence.numbers.size or part.evidence.pairs is not None or cells.shape != (part.decomposition.cells,):
            raise PlanError(
                "evidence-not-cell-weights",
                "The evidence of a Ky Fan design in the plan is not a list of weights for all cells.",
                "",
                "Use the plan as fitnoise wrote it, or plan again.",
                "Nothing was measured.",
            )
        view = View(part)
        return ky_fan_certificate(view.space.rows, cells, view.noise_factor, view.index, view.space.moved)

    def prices(self, part: TablePart) -> Floats:
        """Its part of the weighted total variance."""
        shares = part.variances / part.decomposition.variances
        return np.asarray(shares / shares.sum())

    def words(self, part: TablePart) -> str:
        """That they are biased, and how."""
        return report.values(View(part).small)

    def about(self, part: TablePart) -> Section:
        """How it is measured and estimated."""
        return report.database(View(part).small, View(part).setting)

    def proof(self, part: TablePart) -> Iterator[Section]:
        """What no noise has less of."""
        yield report.proof(part.certificate, View(part).setting)

    def synthetic(self, part: TablePart) -> bool:
        """All tables are of one histogram, but for the variant of the paper."""
        return View(part).head is None

    def biased(self, part: TablePart, answers: Sequence[Exact], histogram: Floats | None = None) -> Projected:
        """The tables of one histogram of a database of the declared size."""
        return Projected(part, answers, histogram)

    def known(self, part: TablePart) -> dict[str, Any]:
        """The declared size and the setting."""
        small, setting = View(part).small, View(part).setting
        return {
            "size": small.size,
            "region": small.region.value,
            "index": setting.index,
            "temperature": setting.temperature,
            "variant": small.variant.value,
        }


PROJECTION = Projection()
