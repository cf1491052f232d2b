"""A question with finitely many answers, with the mechanism that answers it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, Self, final

from fitnoise.kernel.designs.answers import AnswerDesign, foreign_mechanism
from fitnoise.kernel.designs.questions import Mechanism
from fitnoise.kernel.designs.ranks import RankMechanism
from fitnoise.kernel.losses import Loss, rounded_up
from fitnoise.kernel.order import CostLimit, DeclaredSize
from fitnoise.mechanisms._base import PlanPart
from fitnoise.mechanisms.finite import documents
from fitnoise.mechanisms.finite.accuracy import accuracy, points
from fitnoise.mechanisms.finite.priors import uniform
from fitnoise.mechanisms.finite.ranks import rank_margin
from fitnoise.mechanisms.summaries import FiniteSummary
from fitnoise.request.finite_queries import FiniteQuery
from fitnoise.request.publication import Publication


@final
@dataclass(frozen=True, eq=False)
class AnswerPart(PlanPart):
    """One question of a publication, and the mechanism chosen for it.

    Raises:
        PlanError: The mechanism is for another graph, or for another ε.
    """

    publication: Publication
    query: FiniteQuery
    mechanism: Mechanism

    def __post_init__(self) -> None:
        # A mechanism from a file can be for any graph and any ε.
        axes, adjacency = self.publication.domain.axes, self.publication.adjacency
        if not self.query.in_domain(self.publication.domain).accepts(axes, adjacency, self.mechanism):
            raise foreign_mechanism()

    @cached_property
    def design(self) -> AnswerDesign:
        """The measured answer."""
        domain = self.publication.domain
        return AnswerDesign(self.query.in_domain(domain), domain.axes, self.mechanism)

    @cached_property
    def loss(self) -> Loss:
        """The privacy loss of the answer for one protected unit."""
        return self.design.loss(self.publication.adjacency)

    @property
    def sizes(self) -> tuple[DeclaredSize, ...]:
        """The empty tuple: the question itself compares the data with its declared number of people."""
        return ()

    def limits(self, index: int) -> tuple[CostLimit, ...]:
        """Return no limits: the mechanism was constructed for the requested ε."""
        del index
        return ()

    @cached_property
    def exact_epsilon(self) -> Fraction:
        """Privacy cost of the answer to one protected unit, proven: at most the requested ε."""
        return sum(self.loss.pure_epsilons, Fraction(0))

    @cached_property
    def summary(self) -> FiniteSummary:
        """The accuracy and the cost that the plan states for the answer."""
        graph, confidence = self.mechanism.graph, self.publication.confidence
        promised = FiniteSummary(
            name=self.query.name,
            question=self.query.question.value,
            family=self.mechanism.family,
            results=graph.n,
            epsilon=rounded_up(self.exact_epsilon),
            confidence=confidence,
        )
        moe, rank_moe = self.margins(confidence)
        if isinstance(self.mechanism, RankMechanism):
            return replace(promised, rank_moe=rank_moe)
        judged, prior = accuracy(self.mechanism), self.query.prior or uniform(graph)
        numbers = moe is not None
        return replace(
            promised,
            hit_rate=judged.hit_rate(prior),
            mae=judged.mae(prior) if numbers else None,
            rmse=judged.rmse(prior) if numbers else None,
            moe=moe,
            leakage=judged.leakage(prior),
        )

    def margins(self, confidence: float) -> tuple[float | None, float | None]:
        """Return the margin of the answer at a confidence, and the margin by ranks; None for each that does not apply.

        Raises:
            WorkloadError: The confidence is out of range.
        """
        if isinstance(self.mechanism, RankMechanism):
            return None, rounded_up(rank_margin(self.mechanism, confidence))
        if points(self.mechanism.graph.results[:1]) is None:
            return None, None
        return float(accuracy(self.mechanism).margin(confidence)), None

    def document(self) -> dict[str, Any]:
        """Return the mechanism as plain JSON values."""
        return documents.document(self.mechanism)

    @classmethod
    def read(cls, publication: Publication, query: FiniteQuery, document: Mapping[str, Any]) -> Self:
        """Return the part that `document` wrote, with its mechanism proven again.

        Raises:
            PlanError, LookupError, TypeError, ArithmeticError: The document is refused as in `documents.read`.
        """
        adjacency = publication.adjacency
        graph = query.graph(publication.domain, adjacency)
        epsilon, ranks = query.terms.record_epsilon(adjacency), query.terms.ranks(adjacency)
        return cls(publication, query, documents.read(graph, epsilon, document, ranks))
