"""Laplace noise on margins, as a mechanism for tables: pure ε (Li et al. 2010)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, final

import numpy as np

from fitnoise.errors import PlanError
from fitnoise.kernel.arrays import Floats
from fitnoise.kernel.designs._base import CellStructure
from fitnoise.kernel.designs.margins import MIN_NOISE_SCALE, NOISE_VARIANCE, PureStrategy
from fitnoise.kernel.losses import rounded_up
from fitnoise.kernel.units import Neighbours, Privacy
from fitnoise.mechanisms._base import UNBIASED_ROUNDING, SectorIndex, TableMechanism
from fitnoise.mechanisms.documents import margins_document, read_margins, scales_document
from fitnoise.mechanisms.gaussian.mechanism import GAUSSIAN
from fitnoise.mechanisms.laplace.estimate import PureEstimation
from fitnoise.mechanisms.laplace.margins import pure_margins, pure_relaxation
from fitnoise.mechanisms.laplace.report import proof, unbiased
from fitnoise.mechanisms.numbers import TableNumbers, WeightedSums, by_sector, sums_by_sector
from fitnoise.messages import Message, Value, ValueKind
from fitnoise.reporting import Section
from fitnoise.solving.certificates import Certificate
from fitnoise.solving.sectors import Decomposition, TableGroup, decompose

if TYPE_CHECKING:
    from fitnoise.mechanisms.tables import TablePart


@final
class LaplaceMechanism(TableMechanism):
    """The least ε found that meets every target, with margins of error from exact sums of Laplace noise."""

    name = "pure-fit-for-use"
    privacy = Privacy.PURE
    unbiased = True
    price_heading = Message("report.heading.share_of_bound")
    normal = False

    def check(self, part: TablePart) -> None:
        """Raise PlanError unless the strategy is pure and its noise is fine enough."""
        if not isinstance(part.strategy, PureStrategy):
            raise PlanError(
                "laplace-strategy-of-another-kind",
                "The mechanism of the plan is Laplace noise, and its strategy is not a Laplace strategy.",
                "",
                "Use the plan as fitnoise wrote it, or plan again.",
                "Nothing was measured.",
            )
        if part.strategy.scale < MIN_NOISE_SCALE:
            raise PlanError(
                "laplace-noise-too-coarse",
                "The Laplace noise of the plan is on too coarse a lattice.",
                f"The intervals need a lattice {MIN_NOISE_SCALE:g} times finer than the noise.",
                "Use the plan as fitnoise wrote it, or plan again.",
                "Nothing was measured.",
            )

    def decomposition(self, part: TablePart) -> Decomposition:
        """Return the workload over bases of its own: the design measures margins, not sectors."""
        return decompose(part.publication.workload, separate=part.publication.structured_attributes)

    def estimation(self, part: TablePart) -> PureEstimation:
        """Return the generalised least squares estimation."""
        return PureEstimation(part.strategy, part.decomposition)

    def objective_value(self, part: TablePart) -> float:
        """Return ε²/2."""
        return rounded_up(part.exact_cost / 2)

    def certificate(self, part: TablePart) -> Certificate:
        """Return the certificate of Gaussian noise of equal variance: ℓ1 distances are at least ℓ2 distances."""
        return GAUSSIAN.certificate(part)

    def describe_gap(self, certificate: Certificate) -> Message:
        """Return the ratio to the bound: no known bound is near."""
        return Message("report.gap.ratio", (Value("ratio", certificate.value / certificate.bound, ValueKind.FACTOR),))

    def unbiased_bound(self, part: TablePart) -> float:
        """Return 2 asinh(ν/2), a lower bound on ε, for ν² the `bound`."""
        # Rounded down, past the rounding of the square root and asinh.
        return 2 * math.asinh(math.sqrt(part.bound) / 2) * (1 - UNBIASED_ROUNDING)

    def report_proof(self, part: TablePart) -> Iterator[Section]:
        """Yield the section with ε²/2 and its ratio to the bound."""
        yield proof(part.certificate, are_separated=bool(part.publication.adjacency.pattern.caps))

    def report_universal_bound(self, part: TablePart) -> Section:
        """Return the section with the least ε of any unbiased pure mechanism."""
        return unbiased(self.unbiased_bound(part), part.epsilon())

    def relaxation(self, part: TablePart) -> float:
        """Return the largest ratio of variances and, for fit-for-use targets, of squared margins to the targets."""
        return pure_relaxation(part.publication.workload, part.terms, self._estimation(part), part.variances)

    def half_widths(
        self, part: TablePart, group: TableGroup, i: int, confidence: float, row: int | None = None
    ) -> Floats:
        """Return half-widths from exact sums of Laplace noise."""
        return pure_margins(self._estimation(part), group, i, confidence, row)

    def noise_coefficients(self, part: TablePart, adjoints: Mapping[SectorIndex, Floats]) -> tuple[Floats, float]:
        """Return the coefficients of all single noises in a combination, and their scale."""
        return self._estimation(part).noise_coefficients(adjoints), part.strategy.scale

    def covariance(self, left_numbers: TableNumbers, right_numbers: TableNumbers) -> Floats:
        """Return covariances of pairs of numbers, sector by sector."""
        return by_sector(left_numbers, right_numbers)

    def sums(self, left_sums: WeightedSums, right_sums: WeightedSums, length: int) -> Floats | None:
        """Return covariances of sums of numbers, sector by sector."""
        return sums_by_sector(left_sums, right_sums, length)

    @staticmethod
    def _estimation(part: TablePart) -> PureEstimation:
        assert isinstance(part.estimation, PureEstimation)  # noqa: S101 - made above
        return part.estimation

    def prices(self, part: TablePart) -> Floats:
        """Return the prices from the dual weights, as for Gaussian noise: shares of the proven bound."""
        return GAUSSIAN.prices(part)

    def separate_rho(self, part: TablePart) -> float:
        """Return ρ of Laplace noise of the target variances: a record moves a number by |W|, at cost |W| √(2/c)."""
        total, unit = 0.0, part.publication.unit
        twice = unit.neighbours is Neighbours.REPLACE_ONE
        for group in part.decomposition.tables:
            rates = np.sqrt(NOISE_VARIANCE / (group.variances * part.relaxation))
            # Queries that are no matrix are counts, with entries of at least 0.
            sizes = abs(group.queries) if isinstance(group.queries, np.ndarray) else group.queries
            costs = rates @ sizes if isinstance(sizes, np.ndarray) else sizes.rmv(rates.T).T
            total += float(costs.max(axis=1).sum())
        # A replaced record leaves one cell and enters another, each at this cost.
        return (total * part.publication.adjacency.records * (2 if twice else 1)) ** 2 / 2

    def write(self, part: TablePart) -> Any:
        """Return the scale, and the queries of each margin."""
        return margins_document(part.strategy)

    def read(self, document: Any, structure: CellStructure) -> PureStrategy:
        """Return the strategy that `write` wrote."""
        return read_margins(document, structure)

    def describe_noise(self, part: TablePart) -> dict[str, Any]:
        """Return the name, the noise scale, and the number of answers of every margin."""
        names = np.array(part.decomposition.exchangeable, dtype=object)
        pairs = zip(part.strategy.measured, part.strategy.lengths, strict=True)
        return {
            "name": self.name,
            "noise": Message("report.noise.laplace"),
            "scale": scales_document(np.array([part.strategy.scale]))[0],
            "margins": [{"attributes": [str(names[a]) for a in m.attributes], "answers": n} for m, n in pairs],
        }


LAPLACE = LaplaceMechanism()
