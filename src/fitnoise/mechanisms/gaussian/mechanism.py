"""Gaussian noise on sectors, as a mechanism for tables: fit-for-use (Xiao et al. 2021)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from fitnoise.algebra import rules
from fitnoise.errors import PlanError
from fitnoise.kernel.arrays import Floats
from fitnoise.kernel.designs._base import CellStructure
from fitnoise.kernel.designs.sectors import Strategy
from fitnoise.kernel.losses import rounded_up
from fitnoise.kernel.units import Neighbours, Privacy
from fitnoise.mechanisms._base import UNBIASED_ROUNDING, Estimation, TableMechanism
from fitnoise.mechanisms.documents import read_sectors, scales_document, sectors_document
from fitnoise.mechanisms.gaussian.estimate import SectorEstimation
from fitnoise.mechanisms.gaussian.report import proof, unbiased
from fitnoise.mechanisms.gaussian.separate_periods import gained
from fitnoise.mechanisms.gaussian.terms import relaxation, traded
from fitnoise.mechanisms.numbers import TableNumbers, WeightedSums, by_sector, sums_by_sector
from fitnoise.messages import Message
from fitnoise.reporting import Section
from fitnoise.request.targets import z_score
from fitnoise.solving.certificates import Certificate, check_evidence, lower_bound
from fitnoise.solving.costly_sets import CostlySets
from fitnoise.solving.sectors import Decomposition, TableGroup, decompose

if TYPE_CHECKING:
    from fitnoise.mechanisms.tables import TablePart


class SectorMechanism(TableMechanism):
    """The common part of all Gaussian noise on sectors, for any choice of the noise."""

    privacy = Privacy.ZCDP
    normal = True

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
        bases = [g.basis for g in part.strategy.groups]
        return decompose(part.publication.workload, bases, separate=part.publication.structured_attributes)

    def estimation(self, part: TablePart) -> Estimation:
        """Return the estimation of every sector from its own answers."""
        return SectorEstimation(part.strategy)

    def relaxation(self, part: TablePart) -> float:
        """Return the largest ratio of achieved variance to target, or the ratio of the weighted totals."""
        return relaxation(part.decomposition, part.terms, part.variances)

    def half_widths(
        self, part: TablePart, group: TableGroup, i: int, confidence: float, row: int | None = None
    ) -> Floats:
        """Return normal quantiles times the standard errors."""
        numbers = part.variances[group.numbers[i]]
        return np.asarray(z_score(confidence) * np.sqrt(numbers if row is None else numbers[row : row + 1]))

    def covariance(self, left_numbers: TableNumbers, right_numbers: TableNumbers) -> Floats:
        """Return covariances of pairs of numbers, sector by sector."""
        return by_sector(left_numbers, right_numbers)

    def sums(self, left_sums: WeightedSums, right_sums: WeightedSums, length: int) -> Floats | None:
        """Return covariances of sums of numbers, sector by sector."""
        return sums_by_sector(left_sums, right_sums, length)

    def separate_rho(self, part: TablePart) -> float:
        """Return ρ of independent Gaussian noise of target variance times relaxation, a separate plan for each table.

        m records that differ in attributes of a table are in different cells, and cost m times as much as one record.
        In other tables they cost m² times as much. Among sets of records in different structured cells, the costliest
        found set determines the cost.
        """
        d, unit, total, distinct = part.decomposition, part.publication.unit, 0.0, part.terms.distinct
        sets = None if part.terms.sets is None else CostlySets(part.terms.sets)
        big = np.array(d.sizes) > 1
        for group in d.tables:
            precision = 1 / (group.variances * part.relaxation)
            without_axes = ~big[group.axes].any(axis=1)
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
                grams = (_gram(group.queries, p) for p in precision)
                total += sum(sets.find_costliest(g, sets.initial_sets(), 1)[0][0] for g in grams) * part.terms.factor
            elif distinct is None:
                total += float(costs.sum()) * part.publication.adjacency.records**2
            else:
                # Records in different cells of a table add their costs. In one cell, m records cost m² times one.
                shows_all = np.array([set(distinct.attributes) <= set(axes) for axes in group.axes.tolist()])
                total += (
                    float(costs @ np.where(shows_all, distinct.max_records, distinct.max_records**2))
                    * part.terms.factor
                )
        return total / 2

    def write(self, part: TablePart) -> Any:
        """Return the strategy, group by group."""
        return sectors_document(part.strategy)

    def read(self, document: Any, structure: CellStructure) -> Strategy:
        """Return the strategy that `write` wrote."""
        return read_sectors(document, structure)

    def describe_noise(self, part: TablePart) -> dict[str, Any]:
        """Return the name, and the noise scale of every sector."""
        names = np.array(part.decomposition.exchangeable, dtype=object)
        return {
            "name": self.name,
            **self.release_entries(part),
            "noise": Message("report.noise.gaussian"),
            "scales": [
                {
                    "attributes": names[g.attributes].tolist(),
                    "answers": g.answers.tolist(),
                    "scales": scales_document(g.scales),
                }
                for g in part.strategy.groups
            ],
        }

    def release_entries(self, part: TablePart) -> dict[str, Any]:
        """Return further entries of release.json before the noise."""
        del part
        return {}


class GaussianMechanism(SectorMechanism):
    """The least cost that meets every target."""

    name = "fit-for-use"
    unbiased = True
    price_heading = Message("report.heading.share_of_price")
    family = "sectors, optimal"
    optimal = True

    def objective_value(self, part: TablePart) -> float:
        """Return Δ², relative to cell budgets; for a hybrid objective plus λ Σ ω var."""
        cost = rounded_up(part.exact_weighted_cost)
        return cost if part.terms.trade is None else cost + traded(part.terms, part.variances)

    def certificate(self, part: TablePart) -> Certificate:
        """Return the dual bound at the evidence."""
        if (part.evidence.pairs is not None) != (part.publication.unit.neighbours is Neighbours.REPLACE_ONE):
            raise PlanError(
                "evidence-of-other-neighbours",
                "The evidence of the plan does not fit its neighbours.",
                "Replace-one neighbours have evidence about pairs of records, and other neighbours have none.",
                "Use the plan as fitnoise wrote it, or plan again.",
                "Nothing was measured.",
            )
        return dual_certificate(part)

    def unbiased_bound(self, part: TablePart) -> float:
        """Return ½ log(1 + ν²), a bound on ρ relative to cell budgets: ν² is `bound`, less λ Σ ω var if hybrid."""
        proven = part.bound
        if part.terms.trade is not None:
            proven = max(0.0, proven - traded(part.terms, part.variances))
        return math.log1p(proven) / 2 * (1 - UNBIASED_ROUNDING)

    def report_proof(self, part: TablePart) -> Iterator[Section]:
        """Yield the sections on the cost, or on the objective, and its bound."""
        terms, error = part.terms, None
        if terms.trade is not None and terms.weights is not None:
            error = float(terms.weights @ part.variances)
        cost = float(part.exact_weighted_cost)
        yield from proof(part.publication, part.certificate, cost, rounded_up(part.exact_cost), error)
        if part.terms.sets is not None:
            yield gained(part)

    def report_universal_bound(self, part: TablePart) -> Section:
        """Return the section on the least ρ of any unbiased mechanism."""
        hybrid = part.terms.trade is not None
        return unbiased(self.unbiased_bound(part), float(part.exact_weighted_cost) / 2, hybrid=hybrid)

    def prices(self, part: TablePart) -> Floats:
        """Return prices from the dual weights, or from the weights of the total."""
        t, q = part.terms, part.evidence.numbers
        check_evidence(part.decomposition, part.evidence, t)
        if t.weights is None:
            return np.asarray(q / q.sum())
        if t.trade is None:
            shares = t.weights * part.decomposition.variances
            return np.asarray(shares / shares.sum())
        return np.asarray(q / part.objective_value)


def dual_certificate(part: TablePart) -> Certificate:
    """Return the value, and the dual bound at the evidence, divided by the relaxation under a budget."""
    bound = lower_bound(part.decomposition, part.evidence, part.terms)
    # The bound is for the requested targets. Under a budget all targets are relaxed by one factor, and costs fall by
    # it.
    bought = 1.0 if part.publication.budget is None else part.relaxation
    return Certificate(value=part.objective_value, bound=bound / bought)


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


GAUSSIAN = GaussianMechanism()
