"""Tables of a publication with their design, for every kind of noise: accuracy, prices, proof."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, Self, final

import numpy as np

from fitnoise.errors import PlanError
from fitnoise.kernel.arrays import Floats
from fitnoise.kernel.losses import Loss, rounded_up
from fitnoise.kernel.order import CostLimit, DeclaredSize
from fitnoise.mechanisms._base import (
    BiasedEstimator,
    Descriptions,
    Intervals,
    PlanPart,
    Proof,
    TableErrors,
    TableMechanism,
)
from fitnoise.mechanisms.documents import (
    claim_document,
    evidence_document,
    proofs_document,
    read_claim,
    read_evidence,
    read_setting,
)
from fitnoise.mechanisms.estimation import Estimation
from fitnoise.mechanisms.summaries import TableSummary, target_message
from fitnoise.mechanisms.terms import terms, weighted_cost
from fitnoise.messages import Message
from fitnoise.request.curves import epsilon_at
from fitnoise.request.publication import MAX_TEMPERATURE, Publication, Setting
from fitnoise.request.targets import checked_confidence, z_score
from fitnoise.request.workloads import Family, LazySequence
from fitnoise.solving.certificates import Certificate, Evidence, ObjectiveTerms
from fitnoise.solving.sectors import Decomposition, TableGroup
from fitnoise.solving.statuses import read_status, write_status

MAX_RHO = Fraction(10**100)
"""The largest ρ for which an ε is computed."""


@final
@dataclass(frozen=True, eq=False)
class TablePart(PlanPart):
    """Tables, and the certified design that answers them.

    mechanism: The mechanism that answers the tables.
    publication: The request for these tables.
    strategy: The integers to measure, with their noise scales.
    evidence: Dual weights that prove the bound.
    status: The messages on the end of the optimisation.
    setting: The index and the temperature of a small database; None for other tables.
    full_part: For the first periods of a series, the tables of all periods; None for other tables.

    Raises:
        PlanError: The strategy, its domain, the mechanism's privacy or the setting does not fit the publication.

    **Guarantees**
        * `exact_cost` is the exact cost of `strategy` for one protected unit.
        * `bound` ≤ the `objective_value` of every unbiased linear mechanism of its kind of noise that meets the
          targets. Under a budget, the targets are multiplied by `relaxation`. `bound` is recomputed from the problem
          and `evidence`.
        * `variances` ≤ the targets times `relaxation`, which is at most 1 unless a budget was given. For total error
          the statement holds for the weighted total.
    """

    mechanism: TableMechanism
    publication: Publication
    strategy: Any
    evidence: Evidence
    status: tuple[Message, ...]
    setting: Setting | None = None
    full_part: TablePart | None = None

    def __post_init__(self) -> None:
        _own_setting(self.publication, self.setting)
        self.mechanism.codec.check(self)
        # A plan from a file can name any strategy, so its form and its domain are compared with the request.
        if self.strategy.structure != self.decomposition.cell_structure:
            raise PlanError(
                "strategy-of-another-domain",
                "The strategy of the plan has another domain than its publication.",
                "",
                "Use the plan as fitnoise wrote it, or plan again.",
                "Nothing was measured.",
            )
        if self.publication.privacy is not self.mechanism.privacy:
            raise PlanError(
                "mechanism-of-another-privacy",
                "The mechanism of the plan gives another privacy than its publication states.",
                "",
                "Use the plan as fitnoise wrote it, or plan again.",
                "Nothing was measured.",
            )

    @property
    def design(self) -> Any:
        """The measured strategy."""
        return self.strategy

    @cached_property
    def decomposition(self) -> Decomposition:
        """The workload in sectors, over the strategy's own bases if it has any."""
        return self.mechanism.codec.decomposition(self)

    @cached_property
    def terms(self) -> ObjectiveTerms:
        """The minimised objective, in the letters of certificates."""
        return terms(self.publication, self.decomposition)

    @cached_property
    def estimation(self) -> Estimation:
        """The rule that estimates the sectors from the noisy answers."""
        return self.errors.estimation()

    @property
    def complete(self) -> TablePart:
        """The tables of all periods for the first periods of a series, and the part itself otherwise."""
        return self if self.full_part is None else self.full_part

    # --- objects of the mechanism -------------------------------------------------------------------

    @cached_property
    def errors(self) -> TableErrors:
        """The variances and covariances of the published numbers."""
        return self.mechanism.errors(self)

    @cached_property
    def proof(self) -> Proof:
        """The value, its bound and the prices of tables: for the first periods of a series, those of all periods."""
        return self.mechanism.proof(self.complete)

    @cached_property
    def intervals(self) -> Intervals:
        """The intervals of the published numbers."""
        return self.mechanism.intervals(self)

    @cached_property
    def descriptions(self) -> Descriptions:
        """The descriptions for reports and for release.json."""
        return self.mechanism.descriptions(self)

    @cached_property
    def estimator(self) -> BiasedEstimator | None:
        """The second estimate, biased but more accurate; None if the mechanism has none."""
        return None if self.mechanism.estimator is None else self.mechanism.estimator(self)

    # --- price --------------------------------------------------------------------------------------

    @property
    def sizes(self) -> tuple[DeclaredSize, ...]:
        """The declared size of a small database."""
        return self.mechanism.codec.sizes(self)

    def limits(self, index: int) -> tuple[CostLimit, ...]:
        """Return the budget, relative to cell budgets; empty without a budget."""
        budget, budgets = self.publication.budget, self.publication.cell_budgets
        if budget is None:
            return ()
        axes, shares = ((), ()) if budgets is None else budgets.shares(self.publication.workload.domain)
        return (budget.limit("budget", (index,), axes, shares),)

    @cached_property
    def loss(self) -> Loss:
        """The exact cost of the tables for one protected unit."""
        loss: Loss = self.strategy.loss(self.publication.adjacency)
        return loss

    @property
    def exact_cost(self) -> Fraction:
        """The cost of the tables for one protected unit, exact, from the integers: Δ² = 2ρ, or ε² for pure tables."""
        return self.loss.cost_squared

    @property
    def exact_epsilon(self) -> Fraction | None:
        """ε of pure tables, exact; None for others."""
        return self.loss.epsilon

    @property
    def exact_rho(self) -> Fraction:
        """ρ of the tables for one protected unit, exact."""
        return self.loss.rho

    @property
    def rho(self) -> float:
        """`exact_rho`, rounded up to a float."""
        return rounded_up(self.exact_rho)

    def epsilon(self, delta: float | None = None) -> float:
        """Return a guaranteed ε at δ (default: the publication's δ)."""
        return epsilon_at(self.loss, self.publication.delta if delta is None else delta)

    @property
    def profile(self) -> Floats:
        """Squared cost of one record in each structured cell (n_o,): the cells of a matrix workload, in C order."""
        return np.array([rounded_up(x) for x in self.strategy.profile()])

    @property
    def slack(self) -> Floats:
        """Saving of one record in each structured cell relative to the costliest record, (n_o,): charged and unused."""
        # Differences of exact prices: the costliest cell has a slack of exactly 0.
        prices = self.strategy.profile()
        max_price = max(prices)
        return np.array([float(max_price - x) for x in prices])

    @cached_property
    def exact_weighted_cost(self) -> Fraction:
        """The largest cost in a cell over its budget r ≤ 1, for one unit, exact; `exact_cost` without cell budgets."""
        if self.publication.cell_budgets is None:
            return self.exact_cost
        return weighted_cost(self.publication, self.strategy)

    @cached_property
    def objective_value(self) -> float:
        """The value of the minimised objective, computed from the integers of the strategy.

        For Gaussian noise it is Δ², relative to cell budgets if there are any. A hybrid objective adds its λ times the
        weighted sum of variances. For pure tables it is ε²/2, as Laplace noise of scale t has variance 2 t². This is at
        least the Δ² of Gaussian noise of equal variance, so `bound` holds for both. For a small database it is the
        value of its certificate. For a series it is the value for the tables of all periods.
        """
        return self.proof.objective_value()

    # --- accuracy -----------------------------------------------------------------------------------

    @cached_property
    def variances(self) -> Floats:
        """Achieved variances, in people²: (m,) for a matrix workload.

        In general, one for each distinct row of each table, tables in order; see :meth:`table_variances`. Rows that
        differ only in exchangeable values share one entry: their variance, or the largest if numbers of places differ.
        """
        return self.errors.variances()

    @cached_property
    def relaxation(self) -> float:
        """The largest ratio of achieved variance to target: at most 1 without a budget.

        For total error it compares the weighted totals. Pure tables keep their margins as well, which are wider than
        those of Gaussian noise of the same variance. For pure tables that are fit for use it is at least the
        largest ratio of a squared margin to its squared target.
        """
        return self.proof.relaxation()

    def table_margins(self, name: str, confidence: float | None = None) -> Floats:
        """Return half-widths of intervals for the numbers of one table, in people, in its shape.

        Args:
            name: The name of the table.
            confidence: The confidence of each interval; default the table's own, or the workload's.

        Raises:
            WorkloadError: There is no such table, or the confidence is not between 0 and 1.
        """
        workload = self.publication.workload
        # Checked here, so that every kind of noise refuses a confidence with the same error.
        gamma = (
            workload[name].target.level(workload.confidence) if confidence is None else checked_confidence(confidence)
        )
        return self.intervals.table_margins(name, gamma)

    def table_variances(self, name: str) -> Floats:
        """Return achieved variances of one table, in the table's shape."""
        return self.errors.table_variances(name)

    def table_index(self, name: str) -> int:
        """Return the index of the table of this name, or raise WorkloadError if no table has it."""
        return self.publication.workload.number(name)

    def in_table_shape(self, name: str, rows: Callable[[TableGroup, int], Floats]) -> Floats:
        """Return one number for every row of a table, in the table's shape; 0 where no record can be.

        Args:
            name: The name of the table.
            rows: A function that returns the numbers of the rows of a table, from its group and its index there.
        """
        d, number = self.decomposition, self.table_index(name)

        def numbers(t: int) -> Floats:
            group, i = d.group_of(t)
            # Numbers of one row differ only in exchangeable values, and share its entry.
            inner, outer = rows(group, i).reshape(group.inner_shape), [d.sizes[a] for a in group.axes[i]]
            return np.asarray(group.columns(np.broadcast_to(inner, (1, *outer, *group.inner_shape)))[0])

        if not d.blocks:
            return numbers(number)
        out = np.zeros(self.publication.workload.tables[number].shape(self.publication.workload.domain))
        for t, index in d.parts_of(number):
            out[index] = numbers(t)
        return out

    @property
    def numbers(self) -> int:
        """The number of published numbers that are not 0 by rules on classes of values."""
        d = self.decomposition
        per_table = [math.prod(g.inner_shape) for g in d.tables]
        return sum(_total(g.cells) * m for g, m in zip(d.tables, per_table, strict=True))

    @property
    def noisy_answers(self) -> int:
        """The number of noisy answers to measure."""
        return int(sum(self.strategy.lengths))

    @cached_property
    def tables(self) -> Sequence[TableSummary]:
        """One summary per table, computed on access."""
        return _Summaries(self)

    @cached_property
    def price_shares(self) -> Floats:
        """The price of every table (see :class:`TableSummary`), in the order of the tables."""
        if self.full_part is not None:
            names = self.publication.workload.tables.names
            return self.full_part.price_shares[[self.full_part.table_index(name) for name in names]]
        d, q = self.decomposition, self.proof.prices()
        out = np.zeros(len(self.publication.workload.tables))
        for g in d.tables:
            np.add.at(out, d.table_numbers(g), q[g.numbers].sum(axis=1))
        return out

    @cached_property
    def summaries(self) -> tuple[TableSummary, ...]:
        """One summary per part of the workload: a table, or a pattern of tables with its worst number."""
        w, d = self.publication.workload, self.decomposition
        worst = np.zeros(len(w.tables))
        for g in d.tables:
            np.maximum.at(worst, d.table_numbers(g), (self.variances[g.numbers] / g.variances).max(axis=1))
        out = []
        for start, stop, part in zip(w.tables.starts[:-1], w.tables.starts[1:], w.tables.parts, strict=True):
            summary = self.summary(int(start + np.argmax(worst[start:stop])))
            if isinstance(part, Family):
                summary = replace(
                    summary,
                    name=part.describe(),
                    numbers=_total(part.cells(w.domain)),
                    target=target_message(part.template.target.kind, part.targets(w.domain)),
                    price=float(self.price_shares[start:stop].sum()),
                    tables=len(part),
                )
            out.append(summary)
        return tuple(out)

    def summary(self, i: int) -> TableSummary:
        """Return the accuracy and the cost that the plan states for the i-th table."""
        w = self.publication.workload
        t, layouts = w.tables[i], {j: self.decomposition.layout(j) for j, _ in self.decomposition.parts_of(i)}
        j = max(layouts, key=lambda j: float((self.variances[layouts[j].rows] / layouts[j].variances).max()))
        targets, achieved = layouts[j].variances, self.variances[layouts[j].rows]
        gamma = t.target.level(w.confidence)
        group, index = self.decomposition.group_of(j)
        worst_pair = self.errors.worst(i)
        # Targets or variances of this form differ within a row, so a row does not determine its worst number.
        if worst_pair is not None:
            targets, worst = np.array([worst_pair[0]]), 0
            margin = np.array([z_score(gamma) * math.sqrt(worst_pair[1])])
        elif self.intervals.normal:
            worst = int(np.argmax(achieved / targets))
            margin = self.intervals.half_widths(group, index, gamma, row=worst)
        else:
            # Of two numbers of one variance, one can have the wider margin, so all margins are compared.
            margins = self.intervals.half_widths(group, index, gamma)
            worst = int(np.argmax(margins / np.sqrt(targets)))
            margin = margins[worst:]
        return TableSummary(
            name=t.name,
            numbers=math.prod(t.shape(w.domain)),
            target=target_message(t.target.kind, t.targets(w.domain)),
            confidence=gamma,
            target_moe=z_score(gamma) * math.sqrt(targets[worst]) / t.scale(w.domain),
            achieved_moe=float(margin[0]) / t.scale(w.domain),
            price=float(self.price_shares[i]),
        )

    @cached_property
    def separate_rho(self) -> float:
        """ρ of the usual alternative: independent noise on every published number, with separate plans for tables."""
        return self.proof.separate_rho()

    # --- proof --------------------------------------------------------------------------------------

    @cached_property
    def certificate(self) -> Certificate:
        """Value and bound, recomputed from the integers and from the problem."""
        return self.proof.certificate()

    @property
    def bound(self) -> float:
        """Certified lower bound on the value: Δ², unless there are cell budgets or a hybrid objective.

        For pure tables, no linear mechanism with Laplace noise, of variance 2t² for scale t, meets the variances with
        a smaller ε²/2. The reason is that ℓ1 distances are at least ℓ2 distances. No mechanism is known to reach this
        bound. Noise of another shape, such as staircases or coarse lattices, can have a smaller variance at a large ε.
        """
        return self.certificate.bound

    @property
    def gap(self) -> float:
        """Value / bound − 1."""
        return self.certificate.gap

    @property
    def ratio(self) -> float:
        """Value / bound, which reports print for pure plans, because no known bound is close to them."""
        return self.objective_value / self.bound

    @property
    def unbiased_bound(self) -> float | None:
        """Lower bound on the cost of any unbiased mechanism with these variances: on ρ, or on ε for pure tables.

        The mechanism may be linear or not, with any noise. ρ ≥ ½ log(1 + ν²) under ρ-zCDP and ε ≥ 2 asinh(ν/2) under
        pure ε, for ν² the `bound` (under a budget: for the targets times `relaxation`). For a hybrid objective it
        covers mechanisms with no larger total error; with cell budgets it is relative to them. A small database has
        the value None, because its tables are biased.

        **Guarantees**
            * It is at most the cost of these tables.
            * It is at most the cost of any mechanism of this kind that is unbiased, with these variances, at one data
              set and its neighbours.
            * A bound on ρ also holds for any mechanism, biased or not, with mean squared errors of at most these
              variances for all data.
            * It claims nothing for (ε, δ)-differential privacy with δ > 0, which allows a mechanism to reveal all data
              with probability δ.

        **Source.** This project; docs/mathematics/unbiased_bound.md.
        """
        return self.proof.unbiased_bound()

    @property
    def universal_epsilon(self) -> float | None:
        """Lower bound on the ε of any mechanism, biased or not, with errors of at most these variances for all data.

        ν² and the variances are those of `unbiased_bound`. ε ≥ 2 asinh(ν/√2) under pure ε, for pure tables. Other
        tables have an ε at the publication's δ, which is 0 if nothing is proven. Tables of a small database, with
        public totals or with cell budgets have the value None.

        **Guarantees**
            * It is at most the ε of these tables.
            * It is at most the ε of any mechanism whose mean squared errors are at most these variances, for every data
              set. Where neighbours have equal numbers of records, these are data sets of any number of records.

        **Source.** This project; `solving/universal_bounds.py`.
        """
        return self.proof.universal_epsilon()

    # --- document -----------------------------------------------------------------------------------

    def document(self, bound: float | None = None) -> dict[str, Any]:
        """Return the plan's document of these tables, without the request.

        bound: The bound to state; None computes it and rounds it to ten digits.
        """
        # The last digits of the bound differ between processors, and the hash must not.
        stated = float(f"{self.bound:.9e}") if bound is None else bound
        claim = self.strategy.claim
        return {
            "strategy": self.mechanism.codec.write(self.strategy),
            "weights": evidence_document(self.evidence),
            "status": write_status(self.status),
            **({} if self.setting is None else {"setting": vars(self.setting)}),
            "cost": {
                "cost_squared": str(self.exact_cost),
                "bound": stated,
                **({} if claim is None else {"claim": claim_document(claim)}),
            },
            **({} if claim is None else {"proofs": proofs_document(claim, self.strategy.structure.names)}),
        }

    @classmethod
    def read(cls, mechanism: TableMechanism, publication: Publication, document: Mapping[str, Any]) -> Self:
        """Return the part that `document` wrote.

        Raises:
            PlanError: The document's parts contradict each other, or the integers have another cost than it states.
            LookupError, TypeError, ValueError, ArithmeticError, AttributeError: The document has another form.
        """
        stated, claim = str(document["cost"]["cost_squared"]), document["cost"].get("claim")
        strategy = mechanism.codec.read(document["strategy"], mechanism.codec.cell_structure(publication))
        if claim is not None:
            strategy = replace(strategy, claim=read_claim(claim, document.get("proofs", []), strategy.structure.names))
            # The kernel proves the claim before any price of the plan is computed with it.
            strategy.check_claim(publication.adjacency)
        part = cls(
            mechanism,
            publication,
            strategy,
            read_evidence(document["weights"]),
            read_status(document["status"]),
            read_setting(document.get("setting")),
        )
        # A reader may trust the stated cost, so the integers must have exactly this cost.
        if str(part.exact_cost) != stated:
            raise PlanError(
                "integers-of-another-cost",
                "The integers of the plan have another privacy cost than the plan states.",
                "",
                "Use the plan as fitnoise wrote it, or plan again.",
                "Nothing was measured.",
            )
        return part


@final
class _Summaries(LazySequence[TableSummary]):
    """The summaries of the tables, each computed on access."""

    def __init__(self, part: TablePart) -> None:
        self._part = part

    def __len__(self) -> int:
        return len(self._part.publication.workload.tables)

    def _build(self, i: int) -> TableSummary:
        return self._part.summary(i)


def _total(cells: Floats) -> int:
    """Return the sum of integers held in doubles, as an integer."""
    # A sum of doubles is rounded above 2⁵³. Python adds the integers exactly, and few of them differ.
    values, counts = np.unique(cells, return_counts=True)
    return sum(int(x) * n for x, n in zip(values.tolist(), counts.tolist(), strict=True))


def _own_setting(publication: Publication, setting: Setting | None) -> None:
    """Raise PlanError unless a setting is present exactly for small databases and agrees with the publication."""
    small = publication.small_database
    if (small is None) != (setting is None):
        raise PlanError(
            "setting-without-small-database",
            "The plan has a setting without a small database, or a small database without a setting.",
            "The setting states how a small database is measured and estimated.",
            "Use the plan as fitnoise wrote it, or plan again.",
            "Nothing was measured.",
        )
    if small is None or setting is None:
        return
    # The publication may leave the choice of both to the planner (None).
    fits = setting.index >= 1 and 0 <= setting.temperature <= MAX_TEMPERATURE
    fits = fits and small.index in (None, setting.index) and small.temperature in (None, setting.temperature)
    if not fits:
        raise PlanError(
            "setting-of-another-publication",
            "The index or the temperature of the plan is not that of its publication.",
            "",
            "Use the plan as fitnoise wrote it, or plan again.",
            "Nothing was measured.",
        )


def refuse_pointless(cost: Fraction) -> None:
    """Raise PlanError for tables with no cost, because their numbers are public, or with a cost above all limits."""
    refuse_boundless(cost)
    if cost == 0:
        raise PlanError(
            "nothing-to-protect",
            "All requested numbers are public under replace-one neighbours, as the number of records is.",
            "Noise protects nothing there.",
            "Publish the numbers without noise, or set add-or-remove-one neighbours.",
            "No plan was made.",
        )


def refuse_boundless(cost: Fraction) -> None:
    """Raise PlanError for a cost at which nothing is protected, so that no ε is computed."""
    # The comparison is exact: a float of such a cost can be infinite.
    if cost / 2 > MAX_RHO:
        raise PlanError(
            "cost-without-protection",
            f"The targets cost more than ρ = {float(MAX_RHO):g}.",
            "At that cost, the noise protects nothing.",
            "Loosen the targets.",
            "No plan was made.",
        )
