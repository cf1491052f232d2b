"""Plans: everything decided before the data are looked at, frozen, hashed and open to anyone's check.

A plan holds the publication it answers, the integer strategy that will be measured, and the dual weights that prove
nothing cheaper could meet the targets. Prices, errors and the certificate are *properties*: recomputed from these three
whenever they are asked for, also after reading a plan from a file.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, Self, final

import numpy as np

from fitnoise.algebra import rules
from fitnoise.errors import FitnoiseError, PlanError
from fitnoise.kernel.arrays import Floats
from fitnoise.kernel.designs._base import Cells
from fitnoise.kernel.designs.answers import Answer
from fitnoise.kernel.designs.margins import LEAST_SCALE, NOISE_VARIANCE, PureStrategy
from fitnoise.kernel.designs.questions import Mechanism
from fitnoise.kernel.designs.sectors import Strategy
from fitnoise.kernel.losses import Loss, rounded_up
from fitnoise.kernel.order import Limit, Order, Size
from fitnoise.kernel.units import Neighbours, Privacy, Region
from fitnoise.mechanisms.estimation import estimation
from fitnoise.mechanisms.finite import documents
from fitnoise.mechanisms.gaussian.estimate import SectorEstimation
from fitnoise.mechanisms.gaussian.rounding import variances_of
from fitnoise.mechanisms.gaussian.terms import relaxation, terms, traded, weighted_cost
from fitnoise.mechanisms.laplace.estimate import PureEstimation
from fitnoise.mechanisms.laplace.margins import pure_margins, pure_relaxation
from fitnoise.mechanisms.projection.regions import entropy_weight
from fitnoise.planning.documents import (
    _evidence,
    _evidence_document,
    _pure_strategy,
    _setting,
    _sparse,
    _strategy,
    scales_document,
)
from fitnoise.planning.summaries import FiniteSummary, TableSummary, finite_summary, said
from fitnoise.request.documents import Spec
from fitnoise.request.publication import WARMEST, Publication, Setting, Variant
from fitnoise.request.targets import z_score
from fitnoise.request.workloads import Family, MadeOnDemand, exchangeable_attributes
from fitnoise.solving.certificates import Certificate, Evidence, Terms, ky_fan_certificate, lower_bound
from fitnoise.solving.row_space import RowSpace, row_space
from fitnoise.solving.sectors import Decomposition, decompose

FORMAT = 2
"""Version of the plan document. A reader refuses a version it does not know."""

MECHANISM = "fit-for-use"
"""Discrete Gaussian noise on sectors."""

PURE_MECHANISM = "pure-fit-for-use"
"""Discrete Laplace noise on margins."""

PROJECTION_MECHANISM = "projection"
"""Discrete Gaussian noise of a Ky Fan design, for a small database whose answers are projected."""


@final
@dataclass(frozen=True, eq=False)
class Plan:
    """A certified plan. Make one with :func:`fitnoise.plan`; nothing in it depends on data.

    Attributes:
        publication: what was asked for.
        strategy: the integers that will be measured, with their noise scales.
        evidence: dual weights, which prove the bound.
        status: how the optimisation ended, as a sentence.
        finite: the mechanisms of the publication's questions with finitely many answers, in their order.
        setting: of a small database how it is measured and estimated; None of others.

    **Guarantees**
        * `cost_squared` is the exact cost of `strategy` for one protected unit, rounded up to a float;
        * `exact_rho` and `exact_epsilon` are of everything that is released: the tables and the finite answers;
        * `bound` ≤ the `value` of every unbiased Gaussian linear mechanism that meets the targets (under a budget: the
          targets times `relaxation`), recomputed from the problem and `evidence`;
        * `variances` ≤ the targets (times `relaxation`, which is 1 unless a budget was given); for total error this is
          said of the weighted total;
        * `from_json(to_json())` is the same plan with the same `hash`.
    """

    publication: Publication
    strategy: Strategy | PureStrategy
    evidence: Evidence
    status: str
    finite: tuple[Mechanism, ...] = ()
    setting: Setting | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "finite", tuple(self.finite))
        own_mechanisms(self.publication, self.finite)
        _own_setting(self.publication, self.setting)
        d = self.decomposition
        if self.strategy.over != d.over:
            raise PlanError("the strategy is for another domain than the publication.")
        promised = Privacy.PURE if isinstance(self.strategy, PureStrategy) else Privacy.ZCDP
        if self.publication.privacy is not promised:
            raise PlanError("the strategy does not keep what the publication promises.")
        if isinstance(self.strategy, PureStrategy) and self.strategy.scale < LEAST_SCALE:
            raise PlanError(
                f"the noise of a pure plan has a scale of at least {LEAST_SCALE:g}: its intervals rely on it."
            )
        if isinstance(self.strategy, Strategy):
            pairs = zip(self.strategy.groups, d.groups, strict=False)
            if len(self.strategy.groups) != len(d.groups) or not all(
                np.array_equal(mine.attributes, theirs.attributes) for mine, theirs in pairs
            ):
                raise PlanError("the strategy does not measure the sectors that the tables need.")
        if not self.status.isprintable():
            raise PlanError("a plan's status is one line of text.")

    @cached_property
    def decomposition(self) -> Decomposition:
        """The workload in sectors, over the strategy's own bases where it has any."""
        bases = [g.basis for g in self.strategy.groups] if isinstance(self.strategy, Strategy) else None
        return decompose(self.publication.workload, bases, apart=self.publication.apart)

    @cached_property
    def terms(self) -> Terms:
        """What was minimised, in the letters of certificates."""
        return terms(self.publication, self.decomposition)

    @property
    def mechanism(self) -> str:
        """What the mechanism is called in documents."""
        if self.setting is not None:
            return PROJECTION_MECHANISM
        return PURE_MECHANISM if isinstance(self.strategy, PureStrategy) else MECHANISM

    @cached_property
    def estimation(self) -> SectorEstimation | PureEstimation:
        """How sectors are estimated from the noisy answers."""
        return estimation(self.strategy, self.decomposition)

    # --- price --------------------------------------------------------------------------------------

    @cached_property
    def order(self) -> Order:
        """What measuring is told: the designs, for whom, and under which limits."""
        publication, budgets = self.publication, self.publication.cell_budgets
        domain, small = publication.workload.domain, publication.small
        axes, shares = ((), ()) if budgets is None else budgets.shares(domain)
        said = dict(publication.limits)
        limits = [Limit("budget", said["budget"], (0,), axes, shares)] if "budget" in said else []
        limits += [Limit("cap", said["cap"])] if "cap" in said else []
        asked = zip(publication.finite, self.finite, strict=True)
        return Order(
            domain,
            publication.source,
            publication.unit,
            (self.strategy, *(Answer(q, domain, m) for q, m in asked)),
            self.hash,
            self.mechanism,
            tuple(limits),
            () if small is None else (Size(small.size, small.region is Region.EXACTLY),),
            publication.beside,
            publication.free,
        )

    @property
    def loss(self) -> Loss:
        """What all that is released costs one protected unit, exact: what the ledger will be charged."""
        return self.order.loss

    @cached_property
    def exact_cost(self) -> Fraction:
        """Twice ρ of the tables for one protected unit, exact, from the integers: Δ², or ε² of pure tables."""
        return 2 * self.strategy.loss(self.publication.adjacency).rho

    @property
    def exact_epsilon(self) -> Fraction | None:
        """ε of a pure plan for one protected unit, exact; None for Gaussian noise, which keeps no ε without a δ."""
        return self.loss.epsilon

    @property
    def finite_epsilons(self) -> tuple[Fraction, ...]:
        """What each finite answer costs one protected unit, proven: at most what its question asked for."""
        return tuple(sum(loss.pure, Fraction(0)) for loss in self.order.losses[1:])

    @property
    def cost_squared(self) -> float:
        """Δ², rounded up."""
        return rounded_up(self.exact_cost)

    @property
    def exact_rho(self) -> Fraction:
        """ρ, exact: Δ²/2 of the tables, and ε²/2 of each finite answer. The guarantee is ρ-zCDP."""
        return self.loss.rho

    @property
    def rho(self) -> float:
        """ρ, rounded up."""
        return rounded_up(self.exact_rho)

    @property
    def mu(self) -> float:
        """μ = Δ, of the Gaussian mechanism this one imitates on the integers; of a pure plan, what its ε implies.

        Finite answers add what their ε implies: the root of the sum of squares.
        """
        return self.loss.mu

    def epsilon(self, delta: float | None = None, *, nominal: bool = False) -> float:
        """ε at δ (default: the publication's).

        Guaranteed: from ρ-zCDP by the optimal conversion, valid for the discrete noise actually used. Nominal: the
        exact curve of continuous Gaussian noise with the same covariance, smaller, to compare with other tools. Of a
        pure plan both are its ε, whatever δ. The ε of finite answers is added to that of the tables, or their ρ is,
        whichever gives less: both are proven.
        """
        at = self.publication.delta if delta is None else delta
        return self.loss.nominal_epsilon_at(at) if nominal else self.loss.epsilon_at(at)

    @property
    def profile(self) -> Floats:
        """Squared cost of one record in each structured cell (n_o,): the cells of a matrix workload, in C order."""
        return np.array([rounded_up(x) for x in self.strategy.profile()])

    @property
    def slack(self) -> Floats:
        """How much less than the dearest one record in each structured cell costs, (n_o,): paid for and not used."""
        prices = self.strategy.profile()
        dearest = max(prices)
        return np.array([float(dearest - x) for x in prices])

    @cached_property
    def exact_weighted_cost(self) -> Fraction:
        """Max_o prof_o/r_o for one protected unit, exact: Δ² where all cells have the same budget, as r ≤ 1."""
        if self.publication.cell_budgets is None:
            return self.exact_cost
        return weighted_cost(self.publication, self.strategy)

    @cached_property
    def value(self) -> float:
        """What the integers reach of what was minimised: Δ² (relative to cell budgets), plus λ Σ ω var of a hybrid.

        Of a pure plan ε²/2: Laplace noise has twice the variance per squared scale, so this is what the bound is about.
        """
        if isinstance(self.strategy, PureStrategy):
            return rounded_up(self.exact_cost / 2)
        if self.setting is not None:
            return self._ky_fan.value
        cost = rounded_up(self.exact_weighted_cost)
        return cost if self.terms.trade is None else cost + traded(self.terms, self.variances)

    # --- accuracy -----------------------------------------------------------------------------------

    @cached_property
    def variances(self) -> Floats:
        """Achieved variances, in people²: (m,) for a matrix workload.

        In general one per distinct row of each table (rows that differ only in exchangeable values are alike), tables
        in order; see :meth:`table_variances`.
        """
        return variances_of(self.decomposition, self.estimation.whiteners)

    @cached_property
    def relaxation(self) -> float:
        """Largest achieved variance over target: at most 1, or, under a budget, what the budget buys.

        For total error the weighted totals are compared. A pure plan keeps its margins as well, which are wider than
        those of Gaussian noise of the same variance: there it is also the largest squared margin over the one asked.
        """
        if isinstance(self.estimation, PureEstimation):
            return pure_relaxation(self.publication.workload, self.terms, self.estimation, self.variances)
        return relaxation(self.decomposition, self.terms, self.variances)

    def table_margins(self, name: str, confidence: float | None = None) -> Floats:
        """Half-widths of intervals for the numbers of one table, in people, in its shape.

        Args:
            name: of the table.
            confidence: of each interval; default the table's own, or the workload's.
        """
        workload = self.publication.workload
        gamma = workload[name].target.level(workload.confidence) if confidence is None else confidence
        if not isinstance(self.estimation, PureEstimation):
            return np.asarray(z_score(gamma) * np.sqrt(self.table_variances(name)))
        d = self.decomposition
        group, i = d.place(workload.number(name))
        layout = group.layout(i)
        inner = pure_margins(self.estimation, group, i, gamma).reshape(layout.inner_shape)
        outer = tuple(d.sizes[a] for a in layout.axes)
        return np.broadcast_to(inner, outer + layout.inner_shape).transpose(layout.transpose)

    def table_variances(self, name: str) -> Floats:
        """Achieved variances of one table, in the table's shape."""
        layout = self.decomposition.layout(self.publication.workload.number(name))
        outer = tuple(self.decomposition.sizes[a] for a in layout.axes)
        inner = self.variances[layout.rows].reshape(layout.inner_shape)
        return np.broadcast_to(inner, outer + layout.inner_shape).transpose(layout.transpose)

    @property
    def numbers(self) -> int:
        """How many numbers will be published."""
        d = self.decomposition
        per_table = [math.prod(g.inner_shape) for g in d.tables]
        return sum(_total(g.cells) * m for g, m in zip(d.tables, per_table, strict=True))

    @property
    def answers(self) -> int:
        """How many noisy answers will be measured."""
        return self.strategy.answers

    @cached_property
    def tables(self) -> Sequence[TableSummary]:
        """One summary per table, made when it is asked for."""
        return _Summaries(self)

    @cached_property
    def shares(self) -> Floats:
        """The price of every table (see :class:`TableSummary`), in the order of the tables."""
        d, q = self.decomposition, self._prices
        out = np.empty(len(self.publication.workload.tables))
        for g in d.tables:
            out[g.tables] = q[g.numbers].sum(axis=1)
        return out

    @cached_property
    def parts(self) -> tuple[TableSummary, ...]:
        """One summary per part of the workload: a table, or a pattern of tables with its worst number."""
        w, d = self.publication.workload, self.decomposition
        worst = np.empty(len(w.tables))
        for g in d.tables:
            worst[g.tables] = (self.variances[g.numbers] / g.variances).max(axis=1)
        out = []
        for start, stop, part in zip(w.tables.starts[:-1], w.tables.starts[1:], w.tables.parts, strict=True):
            own = self.summary(int(start + np.argmax(worst[start:stop])))
            if isinstance(part, Family):
                own = replace(
                    own,
                    name=part.describe(),
                    numbers=_total(part.cells(w.domain)),
                    target=said(part.template.target.kind, part.targets(w.domain)),
                    price=float(self.shares[start:stop].sum()),
                    tables=len(part),
                )
            out.append(own)
        return tuple(out)

    def summary(self, i: int) -> TableSummary:
        """What the plan promises for the i-th table."""
        w = self.publication.workload
        t, layout = w.tables[i], self.decomposition.layout(i)
        wanted, achieved = layout.variances, self.variances[layout.rows]
        worst = int(np.argmax(achieved / wanted))
        gamma = t.target.level(w.confidence)
        z = z_score(gamma)
        achieved_moe = z * math.sqrt(achieved[worst])
        if isinstance(self.estimation, PureEstimation):
            group, place = self.decomposition.place(i)
            achieved_moe = float(pure_margins(self.estimation, group, place, gamma, row=worst)[0])
        return TableSummary(
            name=t.name,
            numbers=math.prod(t.shape(w.domain)),
            target=said(t.target.kind, t.targets(w.domain)),
            confidence=gamma,
            target_moe=z * math.sqrt(wanted[worst]),
            achieved_moe=achieved_moe,
            price=float(self.shares[i]),
        )

    @property
    def _prices(self) -> Floats:
        """−d log(value) / d log c_j of every number; of small databases its part of the weighted total variance."""
        t, q = self.terms, self.evidence.numbers
        if self.setting is not None:
            shares = self.variances / self.decomposition.variances
            return np.asarray(shares / shares.sum())
        if t.weights is None:
            return np.asarray(q / q.sum())
        if t.trade is None:
            shares = t.weights * self.decomposition.variances
            return np.asarray(shares / shares.sum())
        return np.asarray(q / self.value)

    @cached_property
    def separate_rho(self) -> float:
        """ρ of the usual alternative: independent noise on every published number, each table on its own."""
        if isinstance(self.strategy, PureStrategy):
            return self._separate_epsilon() ** 2 / 2
        total = 0.0
        unit = self.publication.unit
        pairwise = unit.neighbours is Neighbours.REPLACE_ONE
        big = np.array(self.decomposition.sizes) > 1
        for group in self.decomposition.tables:
            precision = 1 / (group.variances * self.relaxation)
            alone = ~big[group.axes].any(axis=1)
            if isinstance(group.queries, np.ndarray):
                own = np.asarray((precision @ group.queries.astype(np.float64) ** 2).max(axis=1))
            else:
                own = np.array([rules.weighted_gram(group.queries, p).diagonal().max() for p in precision])
            if pairwise:  # two records in different rows of the table
                own = 2 * own
                for i in np.flatnonzero(alone):
                    own[i] = _dearest_pair(group.queries, precision[i], alone=self.terms.alone)
            total += float(own.sum())
        return total / 2 * unit.cost_factor()

    def _separate_epsilon(self) -> float:
        """The same for Laplace noise of the variance asked: a record moves a number by |W| and pays |W| √(2/c)."""
        total = 0.0
        twice = self.publication.unit.neighbours is Neighbours.REPLACE_ONE
        for group in self.decomposition.tables:
            rates = np.sqrt(NOISE_VARIANCE / (group.variances * self.relaxation))
            sizes = abs(group.queries) if isinstance(group.queries, np.ndarray) else group.queries  # those are counts
            paid = rates @ sizes if isinstance(sizes, np.ndarray) else sizes.rmv(rates.T).T
            total += float(paid.max(axis=1).sum())
        return total * self.publication.unit.max_records * (2 if twice else 1)

    @cached_property
    def finite_summaries(self) -> tuple[FiniteSummary, ...]:
        """What is promised of each question with finitely many answers, in their order."""
        gamma = self.publication.workload.confidence
        asked = zip(self.publication.finite, self.finite, self.finite_epsilons, strict=True)
        return tuple(finite_summary(q, m, e, gamma) for q, m, e in asked)

    # --- proof --------------------------------------------------------------------------------------

    @cached_property
    def certificate(self) -> Certificate:
        """Value and bound, recomputed from the integers and from the problem."""
        if self.setting is not None:
            return self._ky_fan
        if (self.evidence.pairs is not None) != (self.publication.unit.neighbours is Neighbours.REPLACE_ONE):
            raise PlanError("evidence about pairs of records goes with replace-one neighbours, and only with them.")
        bound = lower_bound(self.decomposition, self.evidence, self.terms)
        bought = 1.0 if self.publication.budget is None else self.relaxation
        return Certificate(value=self.value, bound=bound / bought)

    @cached_property
    def _ky_fan(self) -> Certificate:
        """‖Σ‖_(k) times the sensitivity, and what no noise is below, in row space."""
        assert self.setting is not None  # noqa: S101 - asked of small databases only
        cells = self.evidence.cells
        if self.evidence.numbers.size or self.evidence.pairs is not None or cells.shape != (self.decomposition.cells,):
            raise PlanError("evidence of a Ky Fan design is a weight for every cell, and nothing else.")
        return ky_fan_certificate(self.space.rows, cells, self.noise_factor, self.setting.index)

    @cached_property
    def space(self) -> RowSpace:
        """The queries in row space, for small databases."""
        return row_space(self.decomposition)

    @cached_property
    def noise_factor(self) -> Floats:
        """F (r, r), where the covariance of the noise in row space is F Fᵀ, in people²."""
        ((whitener,),) = self.estimation.whiteners
        return np.asarray(self.space.triangle @ whitener)

    @cached_property
    def head(self) -> Floats | None:
        """Of the paper's variant, the first k directions of row space (r, k), which stay as measured; None of others.

        They are the leading eigenvectors of R diag(q) Rᵀ: those of Σ are not determined where its variances are equal.
        """
        small, setting = self.publication.small, self.setting
        if small is None or setting is None or small.variant is not Variant.PAPER:
            return None
        q = self.evidence.cells / self.evidence.cells.sum()
        vectors = np.linalg.eigh((self.space.rows * q) @ self.space.rows.T)[1]
        return np.asarray(vectors[:, ::-1][:, : setting.index])

    @cached_property
    def penalty(self) -> float:
        """λ of the entropic estimate: τ times the mean over cells of the standard deviation of noise along a column."""
        assert self.setting is not None  # noqa: S101 - asked of small databases only
        return entropy_weight(self.space.rows, self.noise_factor, self.setting.temperature)

    @property
    def bound(self) -> float:
        """Certified lower bound on the value: Δ², unless there are cell budgets or a hybrid objective.

        For a pure plan: no linear mechanism with Laplace noise, of variance 2t² for scale t, meets the variances with a
        smaller ε²/2, since ℓ1 distances are at least ℓ2 distances. None is known to reach it. (Noise of another shape,
        such as staircases or coarse lattices, can have a smaller variance at a large ε.)
        """
        return self.certificate.bound

    @property
    def gap(self) -> float:
        """Value / bound − 1."""
        return self.certificate.gap

    @property
    def ratio(self) -> float:
        """Value / bound: what is said of pure plans, which no bound known is near to."""
        return self.value / self.bound

    # --- document -----------------------------------------------------------------------------------

    def document(self) -> dict[str, Any]:
        """The plan as plain JSON values.

        The bound is stated to ten digits: its last ones differ between processors, and the hash must not.
        """
        return {
            "fitnoise_plan": FORMAT,
            "mechanism": self.mechanism,
            "spec": Spec.of(self.publication).document(),
            "strategy": self._strategy_document(),
            "weights": _evidence_document(self.evidence),
            "status": self.status,
            **({} if self.setting is None else {"setting": vars(self.setting)}),
            "cost": {"cost_squared": str(self.exact_cost), "bound": float(f"{self.bound:.9e}")},
            **({"finite": [documents.document(m) for m in self.finite]} if self.finite else {}),
        }

    def _strategy_document(self) -> Any:
        names = np.array(self.decomposition.exchangeable, dtype=object)
        if isinstance(self.strategy, PureStrategy):
            return {
                "scale": scales_document(np.array([self.strategy.scale]))[0],
                "margins": [
                    {"attributes": [str(names[a]) for a in m.attributes], "rows": [_sparse(row) for row in m.rows]}
                    for m in self.strategy.asked
                ],
            }
        return [
            {
                "attributes": names[g.attributes].tolist(),
                "basis": g.basis.tolist(),
                "mixing": g.mixing.tolist(),
                "scales": scales_document(g.scales),
            }
            for g in self.strategy.groups
        ]

    def to_json(self) -> str:
        """Canonical JSON: the same plan gives the same text. Keys keep their order: the domain's has a meaning."""
        return self._text

    @cached_property
    def _text(self) -> str:
        return json.dumps(self.document(), separators=(",", ":"), allow_nan=False) + "\n"

    @cached_property
    def hash(self) -> str:
        """SHA-256 of the canonical JSON, hexadecimal."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read a plan and check that its integers cost what it says.

        Raises:
            PlanError: not a plan, of an unknown version, or one whose parts contradict each other.
            SpecError, WorkloadError: its specification cannot be used.
        """
        try:
            document = json.loads(text)
        except (ValueError, RecursionError):
            raise PlanError("this is not a plan: it is not JSON. Nothing was measured.") from None
        if not isinstance(document, Mapping) or "fitnoise_plan" not in document:
            raise PlanError("this is not a plan: the key 'fitnoise_plan' is missing. Nothing was measured.")
        known = (MECHANISM, PURE_MECHANISM, PROJECTION_MECHANISM)
        if document["fitnoise_plan"] != FORMAT or document.get("mechanism") not in known:
            raise PlanError(
                f"this plan is version {document['fitnoise_plan']!r} of mechanism {document.get('mechanism')!r}; this "
                f"program reads version {FORMAT} of {', '.join(map(repr, known))}. Nothing was measured."
            )
        try:
            plan = cls._read(document)
            stated = str(document["cost"]["cost_squared"])
        except FitnoiseError:
            raise
        except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError) as error:
            raise PlanError(
                f"the plan is damaged ({type(error).__name__} while reading it). Nothing was measured."
            ) from None
        if str(plan.exact_cost) != stated:
            raise PlanError("the plan's integers do not cost what it says. Nothing was measured.")
        return plan

    @classmethod
    def _read(cls, document: Mapping[str, Any]) -> Self:
        publication = Spec.parse(document["spec"]).publication()
        domain = publication.workload.domain
        if (publication.small is not None) != (document["mechanism"] == PROJECTION_MECHANISM):
            raise PlanError("a plan for a small database is one of the projection mechanism, and no other is.")
        free, bound = exchangeable_attributes(publication.workload, publication.apart)
        over = Cells(tuple((a, domain[a].size) for a in free), tuple((a, domain[a].size) for a in bound))
        read = _pure_strategy if document["mechanism"] == PURE_MECHANISM else _strategy
        finite = document.get("finite", [])
        if not isinstance(finite, list) or len(finite) != len(publication.finite):
            raise PlanError("a plan has one mechanism for each question with finitely many answers; this one has not.")
        of = publication.adjacency
        return cls(
            finite=tuple(
                documents.read(q.graph(domain, of), q.record_epsilon(of), m)
                for q, m in zip(publication.finite, finite, strict=True)
            ),
            publication=publication,
            strategy=read(document["strategy"], over),
            evidence=_evidence(document["weights"]),
            status=str(document["status"]),
            setting=_setting(document.get("setting")),
        )


@final
class _Summaries(MadeOnDemand[TableSummary]):
    """The tables' summaries, each made when it is asked for."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    def __len__(self) -> int:
        return len(self._plan.publication.workload.tables)

    def _made(self, i: int) -> TableSummary:
        return self._plan.summary(i)


def _total(cells: Floats) -> int:
    """The sum of whole numbers held in doubles, as a whole number."""
    values, counts = np.unique(cells, return_counts=True)
    return sum(int(x) * n for x, n in zip(values.tolist(), counts.tolist(), strict=True))


def _dearest_pair(queries: Any, precision: Floats, *, alone: bool) -> float:
    """Of independent noise on one table's numbers, for replace-one neighbours whose records differ in structured cells.

    The largest squared distance of two columns; `alone`, at least that of one column to 0.
    """
    if isinstance(queries, np.ndarray):
        scaled = np.unique(queries * np.sqrt(precision)[:, None], axis=1)
        gram = scaled.T @ scaled
    else:
        gram = rules.weighted_gram(queries, precision)
    own = gram.diagonal()
    single = float(own.max()) if alone else 0.0
    return max(single, float((own[:, None] + own - 2 * gram).max()))


def _own_setting(publication: Publication, setting: Setting | None) -> None:
    """Raise PlanError unless there is a setting exactly for small databases, as far as the publication says it."""
    small = publication.small
    if (small is None) != (setting is None):
        raise PlanError("a plan for a small database says how it is measured and estimated, and no other does.")
    if small is None or setting is None:
        return
    fits = setting.index >= 1 and 0 <= setting.temperature <= WARMEST
    fits = fits and small.index in (None, setting.index) and small.temperature in (None, setting.temperature)
    if not fits:
        raise PlanError("the index or the temperature of a plan are not those of its publication.")


def own_mechanisms(publication: Publication, finite: Sequence[Mechanism]) -> None:
    """Raise PlanError unless there is one mechanism for each finite question: of its graph, and made for its ε."""
    domain, of = publication.workload.domain, publication.adjacency
    fits = len(finite) == len(publication.finite) and all(
        q.fits(domain, of, m) for q, m in zip(publication.finite, finite, strict=True)
    )
    if not fits:
        raise PlanError("the mechanisms of a plan are not those of its questions. Nothing was measured.")


def refuse_free(plan: Plan) -> None:
    """Raise PlanError for a plan that costs nothing: what it would publish is public."""
    if plan.exact_cost == 0:
        raise PlanError(
            "replace-one neighbours protect nothing that these tables show: the number of records is public there, and "
            "so is every number asked for. Publish it without noise, or ask for add-or-remove-one. No plan was made."
        )
