"""One answer of finitely many as a design: a question, and the mechanism that answers it. Part of the trust kernel."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np

from fitnoise.errors import PlanError
from fitnoise.kernel.designs._base import Answers, Counts, Design, Door, Margin, other_domain
from fitnoise.kernel.designs.questions import FiniteQuery, Mechanism, Question
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
class Answer(Design):
    """The answer to one question, drawn from the row of its true result.

    query: what is asked. domain: of the records. mechanism: integers, proven private for the graph of the question.

    **Guarantees**
        * the loss is at least the largest log-ratio of two rows that a unit can turn into each other, for a graph that
          is derived from the question anew, and a mechanism for another graph is refused; by ranks, of two rows of
          neighbouring data, as they are scored for the question; a mechanism for another ε is not measured;
        * the answer is one exact draw.
    """

    query: FiniteQuery
    domain: Domain
    mechanism: Mechanism

    def afresh(self, of: Adjacency) -> Answer:
        """The same integers on the question's own graph, proven anew.

        Raises:
            PlanError: they were made for another ε than the question's.
        """
        if self.mechanism.epsilon != self.query.record_epsilon(of):
            raise foreign_mechanism()
        return replace(self, mechanism=self.mechanism.anew(self.query.graph(self.domain, of)))

    def check(self, sizes: Mapping[str, int], steps: Mapping[str, tuple[int, ...]]) -> None:
        """Raise PlanError unless it is for a domain whose attributes have these numbers of values, and of no amount."""
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
        """What the question asks to be counted."""
        return self.query.margins(self.domain)

    @property
    def asks_left_out(self) -> bool:
        """As the question does."""
        return self.query.question is Question.LEFT_OUT

    def loss(self, of: Adjacency) -> Loss:
        """Pure ε: what one step of the graph costs, as often as a unit can take one."""
        if not self.query.bounds(self.domain, of, self.mechanism):
            raise foreign_mechanism()
        return Loss.of_epsilon(self.query.steps(of) * self.mechanism.log_ratio(), by_cell=of.by_cell)

    def fixes_size(self, of: Adjacency) -> bool:
        """A question says how many records there are, exactly where that is public."""
        return of.fixes_size

    def exact(self, counts: Counts, of: Adjacency, records: int) -> Answers:
        """Where the true result is among all that there are: looked up, and refused, before anything is charged.

        By ranks: the level of every value.
        """
        del records  # the question declares its own bound
        own = [counts[m] for m in self.query.margins(self.domain)]
        if self.asks_left_out:
            own = [np.array(counts.left_out)]
        if isinstance(self.mechanism, RankMechanism):
            return (np.array(self.mechanism.place(self.query.records(self.domain, of, own)), dtype=np.int64),)
        place = self.mechanism.place(self.query.answer(self.domain, of, own))
        return (np.atleast_1d(np.array(place, dtype=np.int64)),)

    def draw(self, exact: Answers, door: Door) -> Answers:
        """Which of its outputs the mechanism gave, from 0."""
        ((place),) = exact
        return (np.array([self.mechanism.drawn(tuple(place.tolist()), door)], dtype=np.int64),)

    def detail(self, of: Adjacency) -> dict[str, list[Any]]:
        """The question, the family of its mechanism, and its ε."""
        epsilon = str(self.loss(of).epsilon)
        return {"finite": [{"question": self.query.name, "family": self.mechanism.family, "epsilon": epsilon}]}
