"""Define answers as designs: a question with finitely many results, and the mechanism that answers it. Trust kernel."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np

from fitnoise.errors import PlanError
from fitnoise.kernel.designs._base import (
    INT64_SAFE_BOUND,
    Answers,
    Counts,
    Design,
    Margin,
    NoiseSource,
    other_domain,
)
from fitnoise.kernel.designs.questions import CellQuestion, Mechanism, QuestionKind
from fitnoise.kernel.designs.ranks import RankMechanism
from fitnoise.kernel.domain import Domain
from fitnoise.kernel.losses import Loss
from fitnoise.kernel.units import Adjacency


def foreign_mechanism() -> PlanError:
    """Return the error for a mechanism that was made for another question."""
    return PlanError(
        "mechanism-of-another-question",
        "A mechanism of the plan was made for another question, or for another ε.",
        "",
        "Make the plan again.",
        "Nothing was measured.",
    )


@final
@dataclass(frozen=True, eq=False)
class AnswerDesign(Design):
    """The answer to one question, drawn from the row of its true result.

    Attributes:
        query: The question.
        domain: The domain of the records.
        mechanism: The mechanism, integers that are proven private for the graph of the question.

    **Guarantees**
        * The loss is at least the largest log-ratio of two rows that a unit can turn into each other. The graph is
          derived again from the question, and a mechanism for another graph is refused.
        * For a mechanism by ranks, the two rows are those of neighbouring data, as they are scored for the question.
        * A mechanism for another ε is not measured.
        * The answer is one exact draw.
    """

    query: CellQuestion
    domain: Domain
    mechanism: Mechanism

    def without_cache(self, adjacency: Adjacency) -> AnswerDesign:
        """Return the design without cached results, with its mechanism on the graph that follows from the question.

        The mechanism is made again, so its constructor proves its privacy on this graph.

        Args:
            adjacency: The neighbour relation, from which the graph and its ε follow.

        Raises:
            PlanError: The mechanism was made for another ε than the question's, or is not private on its graph.
            WorkloadError: The question does not fit the domain (:meth:`CellQuestion.graph`).
        """
        if self.mechanism.epsilon != self.query.record_epsilon(adjacency):
            raise foreign_mechanism()
        return replace(self, mechanism=self.mechanism.on_graph(self.query.graph(self.domain, adjacency)))

    def check(self, sizes: Mapping[str, int], steps: Mapping[str, tuple[int, ...]]) -> None:
        """Raise PlanError unless the domain has these numbers of values and steps, and no attribute used is an amount.

        Args:
            sizes: The number of values of each attribute.
            steps: For each attribute that is an amount, the numbers of steps from each knot to the next.
        """
        if self.domain.sizes != sizes or self.domain.steps != steps:
            raise other_domain("question")
        if any(a in steps for m in self.margins() for a in m):
            raise PlanError(
                "question-about-amount",
                "A question with finitely many answers uses an amount.",
                "Such a question counts records and uses no amount.",
                "Ask the question of another attribute, or plan a table for the amount.",
                "Nothing was measured.",
            )

    def margins(self) -> Collection[Margin]:
        """Return the margins that the question needs."""
        return self.query.margins(self.domain)

    @property
    def asks_left_out(self) -> bool:
        """True if the question requests the number of units with left-out records."""
        return self.query.question is QuestionKind.LEFT_OUT

    def loss(self, adjacency: Adjacency) -> Loss:
        """Return pure ε: the cost of one step of the graph, times the number of steps of a unit.

        Raises:
            PlanError: The mechanism was made for another question.
        """
        # The graph is derived from the question: one that a plan brings along proves nothing about the data.
        if not self.query.bounds(self.domain, adjacency, self.mechanism):
            raise foreign_mechanism()
        return Loss.of_epsilon(self.query.steps(adjacency) * self.mechanism.log_ratio(), by_cell=adjacency.by_cell)

    def fixes_size(self, adjacency: Adjacency) -> bool:
        """Return True if the number of records is public; all questions but `left_out` then need the declared one."""
        return adjacency.fixes_size

    def exact_answers(self, counts: Counts, adjacency: Adjacency, records: int) -> Answers:
        """Return the true result as one int64 array with one axis.

        The array is the position of the result among all results. It has one number for a `FiniteMechanism`, and one
        for each axis of the box for a mechanism without a table. For a mechanism by ranks it has for every value the
        position of its level.
        """
        # `measure` calls this before the charge: data that do not fit the question are refused at no cost.
        del records  # the question declares its own bound
        counted = [counts[m] for m in self.query.margins(self.domain)]
        if self.asks_left_out:
            counted = [np.array(counts.left_out)]
        if isinstance(self.mechanism, RankMechanism):
            return (
                np.array(self.mechanism.index_of(self.query.records(self.domain, adjacency, counted)), dtype=np.int64),
            )
        index = self.mechanism.index_of(self.query.answer(self.domain, adjacency, counted))
        return (np.atleast_1d(np.array(index, dtype=np.int64)),)

    def magnitude(self, records: int) -> int:
        """Return 2⁶², above every position of a result or level."""
        del records  # the positions are of 64 bits, however many records there are
        return INT64_SAFE_BOUND

    def draw(self, exact: Answers, noise: NoiseSource) -> Answers:
        """Return the output that the mechanism draws, from 0, as one array of one number."""
        ((indices),) = exact
        return (np.array([self.mechanism.draw_output(tuple(indices.tolist()), noise)], dtype=np.int64),)

    def ledger_detail(self, adjacency: Adjacency) -> dict[str, list[Any]]:
        """Return the question, the family of its mechanism, and its ε."""
        epsilon = str(self.loss(adjacency).epsilon)
        return {"questions": [{"question": self.query.name, "family": self.mechanism.family, "epsilon": epsilon}]}
