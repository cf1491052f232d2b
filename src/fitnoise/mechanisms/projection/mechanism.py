"""Ky Fan noise for a small database, as a mechanism for tables: projection (Nikolov 2015)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, final

import numpy as np

from fitnoise.errors import PlanError
from fitnoise.kernel.arrays import Exact, Floats
from fitnoise.mechanisms.gaussian.mechanism import Sectors
from fitnoise.mechanisms.projection import report
from fitnoise.mechanisms.projection.estimator import Projected
from fitnoise.mechanisms.projection.view import View
from fitnoise.reporting import Section
from fitnoise.request.publication import Setting, SmallDatabase
from fitnoise.solving.certificates import Certificate, ky_fan_certificate

if TYPE_CHECKING:
    from fitnoise.mechanisms.tables import TablePart


@final
class Projection(Sectors):
    """All queries with the noise of a Ky Fan design; released are answers of a database of the declared size."""

    name = "projection"
    unbiased = False
    share = "variance"

    def check(self, part: TablePart) -> None:
        """Raise PlanError unless it is for a small database, and measures its one sector."""
        if part.publication.small is None:
            raise PlanError("a plan for a small database is one of the projection mechanism, and no other is.")
        super().check(part)

    def value(self, part: TablePart) -> float:
        """‖Σ‖_(k) times the sensitivity."""
        return part.certificate.value

    def certificate(self, part: TablePart) -> Certificate:
        """That, and what no noise is below, in row space."""
        cells = part.evidence.cells
        if part.evidence.numbers.size or part.evidence.pairs is not None or cells.shape != (part.decomposition.cells,):
            raise PlanError("evidence of a Ky Fan design is a weight for every cell, and nothing else.")
        view = View(part)
        return ky_fan_certificate(view.space.rows, cells, view.noise_factor, view.index)

    def prices(self, part: TablePart) -> Floats:
        """Its part of the weighted total variance."""
        shares = part.variances / part.decomposition.variances
        return np.asarray(shares / shares.sum())

    def words(self, part: TablePart) -> str:
        """That they are biased, and how."""
        return report.values(*_known(part)[:1])

    def about(self, part: TablePart) -> Section:
        """How it is measured and estimated."""
        return report.database(*_known(part))

    def proof(self, part: TablePart) -> Iterator[Section]:
        """What no noise has less of."""
        yield report.proof(part.certificate, _known(part)[1])

    def synthetic(self, part: TablePart) -> bool:
        """All tables are of one histogram, but for the variant of the paper."""
        return View(part).head is None

    def biased(self, part: TablePart, answers: Sequence[Exact], histogram: Floats | None = None) -> Projected:
        """The tables of one histogram of a database of the declared size."""
        return Projected(part, answers, histogram)

    def known(self, part: TablePart) -> dict[str, Any]:
        """The declared size and the setting."""
        small, setting = _known(part)
        return {
            "size": small.size,
            "region": small.region.value,
            "index": setting.index,
            "temperature": setting.temperature,
            "variant": small.variant.value,
        }


def _known(part: TablePart) -> tuple[SmallDatabase, Setting]:
    """What is known of the small database, and how it is measured."""
    small, setting = part.publication.small, part.setting
    if small is None or setting is None:
        raise PlanError("a plan for a small database is one of the projection mechanism, and no other is.")
    return small, setting


PROJECTION = Projection()
