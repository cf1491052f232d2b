"""Gaussian noise on sectors, as a mechanism for tables: fit-for-use (Xiao et al. 2021)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from fitnoise.algebra import rules
from fitnoise.errors import PlanError
from fitnoise.kernel.arrays import Floats, Indices
from fitnoise.kernel.designs.sectors import Strategy
from fitnoise.kernel.losses import rounded_up
from fitnoise.kernel.units import Neighbours
from fitnoise.mechanisms._base import (
    Codec,
    Descriptions,
    Proof,
    TableErrors,
    TableMechanism,
)
from fitnoise.mechanisms.documents import read_sectors, scales_document, sectors_document
from fitnoise.mechanisms.estimation import Estimation
from fitnoise.mechanisms.gaussian.estimate import SectorEstimation
from fitnoise.mechanisms.gaussian.report import proof
from fitnoise.mechanisms.gaussian.separate_periods import gained
from fitnoise.mechanisms.numbers import TableNumbers, WeightedSums, by_sector, sums_by_sector
from fitnoise.mechanisms.terms import relaxation, traded
from fitnoise.messages import Message, Value, ValueKind
from fitnoise.reporting import Section
from fitnoise.request.publication import Publication
from fitnoise.request.workloads import counts_by_class
from fitnoise.solving import universal_bounds
from fitnoise.solving.certificates import Certificate, check_evidence, lower_bound
from fitnoise.solving.class_sectors import decompose_by_class
from fitnoise.solving.costly_sets import CostlySets
from fitnoise.solving.sectors import Decomposition, decompose

if TYPE_CHECKING:
    from fitnoise.mechanisms.tables import TablePart


class SectorCodec(Codec):
    """Strategies by sectors, for any choice of the noise."""

    def check(self, part: TablePart) -> None:
        """Raise PlanError unless the strategy measures the sectors that the tables need."""
        if not isinstance(part.strategy, Strategy):
            raise PlanError(
                "gaussian-strategy-of-another-kind",
                "The mechanism of the plan is Gaussian, and its strategy is not a strategy by sectors.",
                "",
                "Use the plan as fitnoise wrote it, or plan again.",
                "Nothing was measured.",
            )
        groups = part.decomposition.groups
        pairs = zip(part.strategy.groups, groups, strict=False)
        if len(part.strategy.groups) != len(groups) or not all(
            np.array_equal(mine.attributes, theirs.attributes) for mine, theirs in pairs
        ):
            raise other_sectors()

    def decomposition(self, part: TablePart) -> Decomposition:
        """Return the workload over the strategy's own bases."""
        return sectors_of(part.publication, [g.basis for g in part.strategy.groups])

    write = staticmethod(sectors_document)
    read = staticmethod(read_sectors)


def sectors_of(request: Publication, bases: Sequence[NDArray[np.int64]] | None = None) -> Decomposition:
    """Return the tables of a request in sectors: by classes of values, if their joint axis has classes.

    Args:
        request: The request.
        bases: One integer basis for each group of sectors; None lets the function choose them.

    Raises:
        WorkloadError: The tables cannot be put in sectors.
    """
    workload, separate = request.workload, request.structured_attributes
    if counts_by_class(workload):
        return decompose_by_class(workload, {}, separate, bases=bases)
    return decompose(workload, bases, separate=separate, public=request.public)


class SectorErrors(TableErrors):
    """The errors of sectors with independent estimates."""

    def estimation(self) -> Estimation:
        """Return the estimation of every sector from its own answers."""
        return SectorEstimation(self.part.strategy)

    def exchangeable_columns(self, i: int) -> frozenset[int]:
        """Return the columns that show one exchangeable attribute; in `by_sector` its values only agree or differ."""
        if self.part.decomposition.blocks:  # Values of two classes differ in more ways.
            return frozenset()
        group, _ = self.part.decomposition.group_of(i)
        starts = np.cumsum([0, *group.spans])
        pairs = enumerate(zip(starts.tolist(), group.spans, strict=False))
        return frozenset(k for k, (start, span) in pairs if span == 1 and group.transpose[start] < group.axes.shape[1])

    def covariance(self, left_numbers: TableNumbers, right_numbers: TableNumbers) -> Floats:
        """Return covariances of pairs of numbers, sector by sector."""
        return by_sector(left_numbers, right_numbers)

    def sums(self, left_sums: WeightedSums, right_sums: WeightedSums, length: int) -> Floats | None:
        """Return covariances of sums of numbers, sector by sector."""
        return sums_by_sector(left_sums, right_sums, length)


class BlockEstimation(Estimation, Protocol):
    """The estimation from a block design: noise scales by block of each set of attributes, by place or by axis."""

    @property
    def variances(self) -> Floats:
        """Variances of the worst number of every table, over its target's ratio to the tightest if they vary, (M,)."""

    def pair_covariances(self, left_numbers: TableNumbers, right_numbers: TableNumbers) -> Floats:
        """Return covariances of pairs of numbers, (P,)."""

    def sums(self, left_sums: WeightedSums, right_sums: WeightedSums, length: int) -> Floats | None:
        """Return covariances of corresponding sums, (J,); None if the caller must use pairs."""


class BlockErrors(TableErrors):
    """The errors of a block design, which its estimation computes."""

    @property
    def _block(self) -> BlockEstimation:
        return cast(BlockEstimation, self.part.estimation)

    def block_parts(self, problem: Callable[[Publication, Decomposition], Any]) -> tuple[Any, Any, Decomposition]:
        """Return the problem, the strategy and the decomposition, from which an estimation is made."""
        part = self.part
        return problem(part.publication, part.decomposition), part.strategy, part.decomposition

    def variances(self) -> Floats:
        """Return the variance of the worst number of every table; the mean if the objective is the sum."""
        return self._block.variances

    def covariance(self, left_numbers: TableNumbers, right_numbers: TableNumbers) -> Floats:
        """Return covariances of pairs of numbers from all answers."""
        return self._block.pair_covariances(left_numbers, right_numbers)

    def sums(self, left_sums: WeightedSums, right_sums: WeightedSums, length: int) -> Floats | None:
        """Return covariances of sums of numbers from all answers."""
        return self._block.sums(left_sums, right_sums, length)


class SectorProof(Proof):
    """The common part of all proofs for Gaussian noise on sectors."""

    def relaxation(self) -> float:
        """Return the largest ratio of achieved variance to target, or the ratio of the weighted totals."""
        return relaxation(self.part.decomposition, self.part.terms, self.part.variances)

    def separate_rho(self) -> float:
        """Return ρ of independent Gaussian noise of target variance times relaxation, a separate plan for each table.

        The records in each cell of a table cost the square of their number. Those that differ in attributes of the
        table are in different cells. Among sets of records in different structured cells, the costliest found set
        determines the cost.
        """
        part = self.part
        d, unit, total, distinct = part.decomposition, part.publication.unit, 0.0, part.terms.distinct
        by_table = np.zeros(len(part.publication.workload.tables))
        sets = None if part.terms.sets is None else CostlySets(part.terms.sets)
        big = np.array(d.sizes) > 1
        for group in d.tables:
            # Numbers that public totals give need no noise.
            needed = part.variances[group.numbers] > 0
            precision = needed / (group.variances * part.relaxation)
            without_axes = np.asarray(~big[group.axes].any(axis=1))
            if isinstance(group.queries, np.ndarray):
                costs = np.asarray((precision @ group.queries.astype(np.float64) ** 2).max(axis=1))
            else:
                costs = np.array([rules.weighted_gram(group.queries, p).diagonal().max() for p in precision])
            if unit.neighbours is Neighbours.REPLACE_ONE:  # two records in different rows of the table
                costs = 2 * costs
                for i in np.flatnonzero(without_axes):
                    costs[i] = _costliest_pair(
                        group.queries, precision[i], allows_add_or_remove=part.terms.allows_add_or_remove
                    )
            if sets is not None:
                for p, in_one_row in zip(precision, without_axes.tolist(), strict=True):
                    # Records that are added can lie in other rows of the table than those that are removed.
                    costs_of_pairs = sets.admissible.signed(_gram(group.queries, p), meet=in_one_row)
                    total += sets.find_costliest(costs_of_pairs, sets.initial_sets(), 1)[0][0] * part.terms.factor
            elif d.blocks:
                # A record is in one block of a table.
                np.maximum.at(by_table, d.table_numbers(group), costs * part.publication.adjacency.records**2)
            elif distinct is None:
                total += float(costs.sum()) * part.publication.adjacency.records**2
            else:
                shows_all = np.array([set(distinct.attributes) <= set(axes) for axes in group.axes.tolist()])
                number, squares = distinct.sums(distinct.max_records)
                total += float(costs @ np.where(shows_all, squares, number**2)) * part.terms.factor
        return (total + float(by_table.sum())) / 2


class GaussianProof(SectorProof):
    """The least cost that meets every target, with the dual bound at the evidence."""

    def objective_value(self) -> float:
        """Return Δ², relative to cell budgets; for a hybrid objective plus λ Σ ω var."""
        part = self.part
        cost = rounded_up(part.exact_weighted_cost)
        return cost if part.terms.trade is None else cost + traded(part.terms, part.variances)

    def certificate(self) -> Certificate:
        """Return the dual bound at the evidence."""
        part = self.part
        is_replaced, evidence = part.publication.unit.neighbours is Neighbours.REPLACE_ONE, part.evidence
        if (evidence.pairs is None and evidence.sets is None) if is_replaced else evidence.pairs is not None:
            raise PlanError(
                "evidence-of-other-neighbours",
                "The evidence of the plan does not fit its neighbours.",
                "Replace-one neighbours have evidence about pairs or sets of records. Others have none about pairs.",
                "Use the plan as fitnoise wrote it, or plan again.",
                "Nothing was measured.",
            )
        return self.relaxed_certificate(lower_bound(part.decomposition, part.evidence, part.terms))

    def relaxed_certificate(self, bound: float) -> Certificate:
        """Return the value, and a bound for the requested targets, divided by the relaxation under a budget."""
        # Under a budget all targets are relaxed by one factor, and costs fall by it.
        bought = 1.0 if self.part.publication.budget is None else self.part.relaxation
        return Certificate(value=self.part.objective_value, bound=bound / bought)

    def _proven_square(self) -> float | None:
        """Return ν²: `bound`, less λ Σ ω var if hybrid. None with public totals that differ between neighbours.

        Nothing is proven for these.
        """
        part, public = self.part, self.part.publication.public
        if public is not None and (public.attributes or not part.publication.adjacency.fixes_size):
            return None
        return part.bound if part.terms.trade is None else max(0.0, part.bound - traded(part.terms, part.variances))

    def unbiased_bound(self) -> float | None:
        """Return ½ log(1 + ν²), a bound on ρ relative to cell budgets."""
        square = self._proven_square()
        return None if square is None else universal_bounds.min_rho(square)

    def universal_epsilon(self) -> float | None:
        """Return the bound on ε at the publication's δ; None with cell budgets, to which it is not relative."""
        publication, square = self.part.publication, self._proven_square()
        if square is None or publication.cell_budgets is not None:
            return None
        return universal_bounds.min_epsilon(square, publication.delta)

    def prices(self) -> Floats:
        """Return prices from the dual weights, or from the weights of the total."""
        part = self.part
        t, q = part.terms, part.evidence.numbers
        check_evidence(part.decomposition, part.evidence, t)
        if t.weights is None:
            return np.asarray(q / q.sum())
        if t.trade is None:
            shares = t.weights * part.decomposition.variances
            return np.asarray(shares / shares.sum())
        return np.asarray(q / part.objective_value)


class SectorDescriptions(Descriptions):
    """The description of Gaussian noise: the noise scales of each part of the strategy."""

    def describe_noise(self) -> dict[str, Any]:
        """Return the name, and the noise scales of every part of the strategy."""
        return {
            "name": self.part.mechanism.name,
            **self.release_entries(),
            "noise": Message("report.noise.gaussian"),
            "scales": [
                {"attributes": attributes, "answers": answers.tolist(), "scales": scales_document(scales)}
                for attributes, answers, scales in self.noise_scales()
            ],
        }

    def release_entries(self) -> dict[str, Any]:
        """Return further entries of release.json before the noise."""
        return {}

    def noise_scales(self) -> Iterator[tuple[list[Any], Indices, Floats]]:
        """Yield the attributes, the numbers of answers and the noise scales of each group of sectors."""
        names = np.array(self.part.decomposition.exchangeable, dtype=object)
        for g in self.part.strategy.groups:
            yield names[g.attributes].tolist(), g.answers, g.scales


class GaussianDescriptions(SectorDescriptions):
    """The descriptions of Gaussian noise of the least cost, and of its bound."""

    price_heading = Message("report.heading.share_of_price")

    def report_proof(self) -> Iterator[Section]:
        """Yield the sections on the cost, or on the objective, and its bound."""
        part, error = self.part.complete, None
        if part.terms.trade is not None and part.terms.weights is not None:
            error = float(part.terms.weights @ part.variances)
        cost = float(part.exact_weighted_cost)
        yield from proof(part.publication, part.certificate, cost, rounded_up(part.exact_cost), error)
        if part.terms.sets is not None:
            yield gained(part)

    def report_universal_bounds(self) -> Iterator[Section]:
        """Yield the sections with the least ρ, and the least ε at the publication's δ."""
        part, hybrid = self.part.complete, self.part.complete.terms.trade is not None
        unbiased, universal = [], []
        if minimum := part.unbiased_bound:
            min_rho = Value("least", minimum, ValueKind.COST)
            excess = Value("more", float(part.exact_weighted_cost) / 2 / minimum - 1, ValueKind.PROPORTION)
            unbiased.append(
                Message("report.unbiased.hybrid" if hybrid else "report.unbiased.targets", (min_rho, excess))
            )
            universal.append(Message("report.universal.hybrid" if hybrid else "report.universal.targets", (min_rho,)))
        if epsilon := part.universal_epsilon:
            delta = Value("delta", part.publication.delta, ValueKind.NUMBER)
            universal.append(Message("report.universal.epsilon", (Value("epsilon", epsilon, ValueKind.COST), delta)))
        yield from self._universal_bounds(unbiased, universal)


def other_sectors() -> PlanError:
    """Return the error for a plan whose strategy measures other sectors than its tables need."""
    return PlanError(
        "strategy-of-other-sectors",
        "The strategy of the plan does not measure the sectors that the tables need.",
        "",
        "Use the plan as fitnoise wrote it, or plan again.",
        "Nothing was measured.",
    )


def _costliest_pair(queries: Any, precision: Floats, *, allows_add_or_remove: bool) -> float:
    """Return the cost of independent noise on one table's numbers if the records of a pair differ in structured cells.

    It is the largest squared distance of two columns. With `allows_add_or_remove`, it is at least that of one
    column to 0.
    """
    # Two records in equal columns cost nothing, so each column is needed once.
    gram = _gram(np.unique(queries, axis=1) if isinstance(queries, np.ndarray) else queries, precision)
    norms = gram.diagonal()
    single = float(norms.max()) if allows_add_or_remove else 0.0
    return max(single, float((norms[:, None] + norms - 2 * gram).max()))


def _gram(queries: Any, precision: Floats) -> Floats:
    """Return Qᵀ diag(precision) Q."""
    if isinstance(queries, np.ndarray):
        scaled = queries * np.sqrt(precision)[:, None]
        return np.asarray(scaled.T @ scaled)
    return np.asarray(rules.weighted_gram(queries, precision))


GAUSSIAN = TableMechanism(
    "fit-for-use",
    SectorCodec(),
    SectorErrors,
    GaussianProof,
    GaussianDescriptions,
    family="sectors, optimal",
    optimal=True,
)
