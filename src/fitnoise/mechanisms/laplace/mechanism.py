"""Laplace noise on margins, as a mechanism for tables: pure ε (Li et al. 2010)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, cast, final

import numpy as np

from fitnoise.errors import PlanError
from fitnoise.kernel.arrays import Floats
from fitnoise.kernel.designs.margins import MIN_NOISE_SCALE, NOISE_VARIANCE, PureStrategy
from fitnoise.kernel.losses import rounded_up
from fitnoise.kernel.units import Neighbours, Privacy
from fitnoise.mechanisms._base import Codec, Descriptions, Intervals, TableMechanism
from fitnoise.mechanisms.documents import margins_document, read_margins, scales_document
from fitnoise.mechanisms.estimation import SectorIndex
from fitnoise.mechanisms.gaussian.mechanism import GaussianProof, SectorErrors
from fitnoise.mechanisms.laplace.estimate import PureEstimation
from fitnoise.mechanisms.laplace.margins import pure_margins, pure_relaxation
from fitnoise.mechanisms.laplace.report import min_cost, proof
from fitnoise.messages import Message, Value, ValueKind
from fitnoise.reporting import Section
from fitnoise.solving import universal_bounds
from fitnoise.solving.sectors import Decomposition, TableGroup, decompose

if TYPE_CHECKING:
    from fitnoise.mechanisms.tables import TablePart


@final
class LaplaceCodec(Codec):
    """Laplace strategies on margins."""

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

    write = staticmethod(margins_document)
    read = staticmethod(read_margins)


@final
class LaplaceErrors(SectorErrors):
    """The errors of sectors estimated from margins, and the Laplace noises in them."""

    def estimation(self) -> PureEstimation:
        """Return the generalised least squares estimation."""
        return PureEstimation(self.part.strategy, self.part.decomposition)

    def noise_coefficients(self, adjoints: Mapping[SectorIndex, Floats]) -> tuple[Floats, float]:
        """Return the coefficients of all single noises in a combination, and their scale."""
        return _estimation(self.part).noise_coefficients(adjoints), self.part.strategy.scale


@final
class LaplaceProof(GaussianProof):
    """The least ε found that meets every target.

    The certificate and the prices are those of Gaussian noise of equal variance: ℓ1 distances are at least ℓ2
    distances.
    """

    def objective_value(self) -> float:
        """Return ε²/2."""
        return rounded_up(self.part.exact_cost / 2)

    def unbiased_bound(self) -> float:
        """Return 2 asinh(ν/2), a lower bound on ε, for ν² the `bound`."""
        return universal_bounds.min_unbiased_epsilon(self.part.bound)

    def universal_epsilon(self) -> float:
        """Return 2 asinh(ν/√2), a lower bound on ε, for ν² the `bound`."""
        return universal_bounds.min_epsilon(self.part.bound, 0.0)

    def relaxation(self) -> float:
        """Return the largest ratio of variances and, for fit-for-use targets, of squared margins to the targets."""
        part = self.part
        return pure_relaxation(part.publication.workload, part.terms, _estimation(part), part.variances)

    def separate_rho(self) -> float:
        """Return ρ of Laplace noise of the target variances: a record moves a number by |W|, at cost |W| √(2/c)."""
        part, total, unit = self.part, 0.0, self.part.publication.unit
        twice = unit.neighbours is Neighbours.REPLACE_ONE
        for group in part.decomposition.tables:
            rates = np.sqrt(NOISE_VARIANCE / (group.variances * part.relaxation))
            # Queries that are no matrix are counts, with entries of at least 0.
            sizes = abs(group.queries) if isinstance(group.queries, np.ndarray) else group.queries
            costs = rates @ sizes if isinstance(sizes, np.ndarray) else sizes.rmv(rates.T).T
            total += float(costs.max(axis=1).sum())
        # A replaced record leaves one cell and enters another, each at this cost.
        return (total * part.publication.adjacency.records * (2 if twice else 1)) ** 2 / 2


@final
class LaplaceIntervals(Intervals):
    """Intervals from exact sums of Laplace noise."""

    normal = False

    def half_widths(self, group: TableGroup, i: int, confidence: float, row: int | None = None) -> Floats:
        """Return half-widths from exact sums of Laplace noise."""
        return pure_margins(_estimation(self.part), group, i, confidence, row)

    def table_margins(self, name: str, confidence: float) -> Floats:
        """Return the half-widths of the rows, in the table's shape."""
        return self.part.in_table_shape(name, lambda group, i: self.half_widths(group, i, confidence))


@final
class LaplaceDescriptions(Descriptions):
    """The descriptions of Laplace noise, and of the ratio of its ε²/2 to the bound."""

    price_heading = Message("report.heading.share_of_bound")

    def describe_noise(self) -> dict[str, Any]:
        """Return the name, the noise scale, and the number of answers of every margin."""
        strategy, names = self.part.strategy, np.array(self.part.decomposition.exchangeable, dtype=object)
        pairs = zip(strategy.measured, strategy.lengths, strict=True)
        return {
            "name": self.part.mechanism.name,
            "noise": Message("report.noise.laplace"),
            "scale": scales_document(np.array([strategy.scale]))[0],
            "margins": [{"attributes": [str(names[a]) for a in m.attributes], "answers": n} for m, n in pairs],
        }

    def describe_gap(self) -> Message:
        """Return the ratio to the bound: no known bound is near."""
        return Message("report.gap.ratio", (Value("ratio", self.part.ratio, ValueKind.FACTOR),))

    def report_proof(self) -> Iterator[Section]:
        """Yield the section with ε²/2 and its ratio to the bound."""
        part = self.part
        yield proof(part.certificate, are_separated=bool(part.publication.adjacency.pattern.caps))

    def report_universal_bounds(self) -> Iterator[Section]:
        """Yield the sections with the least ε of pure mechanisms."""
        part = self.part
        yield from self._universal_bounds(
            [min_cost("report.unbiased.pure", part.unbiased_bound, part.epsilon())],
            [min_cost("report.universal.pure", part.universal_epsilon, part.epsilon())],
        )


def _estimation(part: TablePart) -> PureEstimation:
    return cast(PureEstimation, part.estimation)


LAPLACE = TableMechanism(
    "pure-fit-for-use",
    LaplaceCodec(),
    LaplaceErrors,
    LaplaceProof,
    LaplaceDescriptions,
    privacy=Privacy.PURE,
    intervals=LaplaceIntervals,
)
