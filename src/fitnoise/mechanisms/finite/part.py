"""A question with finitely many answers, with the mechanism that will answer it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, Self, final

from fitnoise.kernel.designs.answers import Answer, foreign_mechanism
from fitnoise.kernel.designs.questions import FiniteQuery, Mechanism
from fitnoise.kernel.designs.ranks import RankMechanism
from fitnoise.kernel.losses import Loss, rounded_up
from fitnoise.kernel.order import Limit, Size
from fitnoise.mechanisms._base import Part
from fitnoise.mechanisms.finite import documents
from fitnoise.mechanisms.finite.accuracy import accuracy, points
from fitnoise.mechanisms.finite.priors import uniform
from fitnoise.mechanisms.finite.ranks import rank_margin
from fitnoise.mechanisms.summaries import FiniteSummary
from fitnoise.request.publication import Publication


@final
@dataclass(frozen=True, eq=False)
class AnswerPart(Part):
    """One question of a publication, and the mechanism chosen for it.

    Raises:
        PlanError: the mechanism is for another graph, or was made for another ε.
    """

    publication: Publication
    query: FiniteQuery
    mechanism: Mechanism

    def __post_init__(self) -> None:
        if not self.query.fits(self.publication.domain, self.publication.adjacency, self.mechanism):
            raise foreign_mechanism()

    @cached_property
    def design(self) -> Answer:
        """What is measured: the answer."""
        return Answer(self.query, self.publication.domain, self.mechanism)

    @cached_property
    def loss(self) -> Loss:
        """What the answer costs one protected unit."""
        return self.design.loss(self.publication.adjacency)

    @property
    def sizes(self) -> tuple[Size, ...]:
        """None: the question itself compares the data with the number of people it declares."""
        return ()

    def limits(self, place: int) -> tuple[Limit, ...]:
        """None of its own: the mechanism was made for the ε that was asked."""
        del place
        return ()

    @cached_property
    def exact_epsilon(self) -> Fraction:
        """What the answer costs one protected unit, proven: at most what the question asked for."""
        return sum(self.loss.pure, Fraction(0))

    @cached_property
    def summary(self) -> FiniteSummary:
        """What is promised of the answer."""
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
        """The margin of the answer at a confidence, and by ranks; None where there is none of the kind.

        Raises:
            WorkloadError: the confidence is none.
        """
        if isinstance(self.mechanism, RankMechanism):
            return None, rounded_up(rank_margin(self.mechanism, confidence))
        if points(self.mechanism.graph.results[:1]) is None:
            return None, None
        return float(accuracy(self.mechanism).margin(confidence)), None

    def document(self) -> dict[str, Any]:
        """The mechanism as plain JSON values."""
        return documents.document(self.mechanism)

    @classmethod
    def read(cls, publication: Publication, query: FiniteQuery, document: Mapping[str, Any]) -> Self:
        """The part that `document` wrote, its mechanism proven anew."""
        of = publication.adjacency
        graph = query.graph(publication.domain, of)
        return cls(publication, query, documents.read(graph, query.record_epsilon(of), document, query.ranks(of)))
