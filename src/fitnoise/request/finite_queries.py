"""Questions with finitely many answers, as publishers state them: in values of attributes.

A question is declared in public terms: its subject, a bound on the number of records, and ε. Its graph, its margins and
its answer follow from the cells of its values (:mod:`fitnoise.kernel.designs.questions`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from fractions import Fraction
from typing import Any, final

from fitnoise.errors import WorkloadError
from fitnoise.kernel.designs.graphs import QueryGraph
from fitnoise.kernel.designs.questions import CellQuestion, QuestionKind, exact_level, unknown_kind
from fitnoise.kernel.exact_powers import rational
from fitnoise.kernel.units import Adjacency
from fitnoise.request.arguments import checked
from fitnoise.request.domain import Domain
from fitnoise.request.selections import Selection

Condition = tuple[tuple[str, Selection], ...]
"""The values that meet the condition, for each of some attributes; a record must meet all of them."""


class Aim(StrEnum):
    """The average over the prior that the mechanism, and the reading of its answer, optimise.

    Two kinds of mechanism optimise none: ranks, for medians and quantiles, and those of questions with too many results
    for a table. They are chosen for the hit rate alone, without a prior.
    """

    HIT_RATE = "hit-rate"
    """The largest probability of the right answer. Among mechanisms within `MAX_HIT_RATE_LOSS` of the best, it takes
    the one with the least mean squared error.
    """
    MEAN_ABSOLUTE_ERROR = "mean-absolute-error"
    MEAN_SQUARED_ERROR = "mean-squared-error"


@final
@dataclass(frozen=True)
class FiniteQuery:
    """One question, made by class methods with the names of the kinds, such as :meth:`count` or :meth:`left_out`.

    Attributes:
        name: The name of the question in releases.
        question: The kind of the question.
        people: The largest number of records; where the number is public (`Adjacency.fixes_size`), their exact number.
            For `left_out` the largest answer, which also stands for more.
        epsilon: The exact privacy cost of the answer for one protected unit.
        attribute: The attribute whose sum, median or quantile the question requests.
        where: The conditions: one for each of several counts, none for `left_out`, and at most one for other kinds.
        prior: The prior probability of each result. None makes all results equally likely. Privacy does not depend on
            it.
        aim: The average over the prior that the mechanism optimises (:class:`Aim`).
        quantile_share: The share of the records at or below a quantile, above 0 and below 1, with a denominator up to
            `MAX_QUANTILE_DENOMINATOR`.

    Raises:
        WorkloadError: The name is not printable, `people` or ε is out of range, or a field does not fit the question.
    """

    name: str
    question: QuestionKind
    people: int
    epsilon: Fraction
    attribute: str | None = None
    where: tuple[Condition, ...] = ()
    prior: tuple[float, ...] | None = None
    aim: Aim = Aim.HIT_RATE
    quantile_share: Fraction | None = None
    terms: CellQuestion = field(init=False, repr=False, compare=False)
    """The question without its values: the parts that need no domain."""

    def __post_init__(self) -> None:
        where = tuple(map(_condition, self.where))
        # The kernel checks all parts but the values, whose cells only a domain knows.
        cells = tuple(tuple((a, (0,)) for a, _ in c) for c in where)
        terms = CellQuestion(
            self.name, self.question, self.people, self.epsilon, self.attribute, cells, self.quantile_share
        )
        try:
            aim = Aim(self.aim)
        except ValueError:
            raise unknown_kind("aim", self.aim, Aim) from None
        prior = None if self.prior is None else _believed(self.prior)
        for name, value in (("where", where), ("terms", terms), ("aim", aim), ("prior", prior)):
            object.__setattr__(self, name, value)
        for name in ("question", "epsilon", "quantile_share"):
            object.__setattr__(self, name, getattr(terms, name))

    @classmethod
    @checked(WorkloadError, "Nothing was planned.", "attribute", "where")
    def count(
        cls, name: str, *, people: int, epsilon: float | Fraction, where: Mapping[str, Any] | None = None, **rest: Any
    ) -> FiniteQuery:
        """Return a question for the number of records that meet a condition, or of all records.

        Args:
            name: The name of the question.
            people: The public bound on the number of records (their exact number, where that is public).
            epsilon: The pure privacy cost of the answer for one unit; a Fraction is exact.
            where: The condition: name = value, [first, last] along an order, or codes without an order. {"values": […]}
                gives single values. A record must meet all entries.
            rest: Further fields, such as `prior` and `aim`.

        Raises:
            WorkloadError: An argument is invalid.
            DomainError: Values of a condition have no valid notation.
            TypeError: `rest` has an unknown field, or one that is set here.
        """
        return cls(name, QuestionKind.COUNT, people, rational(epsilon), None, _at_most_one(where), **rest)

    @classmethod
    @checked(WorkloadError, "Nothing was planned.", "attribute", "where")
    def counts(
        cls, name: str, *, people: int, epsilon: float | Fraction, where: Sequence[Mapping[str, Any]], **rest: Any
    ) -> FiniteQuery:
        """Return a question for several counts of the same records, answered together for one ε.

        Args:
            name: The name of the question.
            people: The public bound on the number of records (their exact number, where that is public).
            epsilon: The pure privacy cost of the answer for one unit; a Fraction is exact.
            where: One mapping for each count, as in :meth:`count`.
            rest: Further fields, such as `prior` and `aim`.

        Raises:
            WorkloadError: An argument is invalid.
            DomainError: Values of a condition have no valid notation.
            TypeError: `rest` has an unknown field, or one that is set here.
        """
        return cls(name, QuestionKind.COUNTS, people, rational(epsilon), None, tuple(map(_pairs, where)), **rest)

    @classmethod
    @checked(WorkloadError, "Nothing was planned.", "attribute", "where")
    def sum(
        cls,
        name: str,
        attribute: str,
        *,
        people: int,
        epsilon: float | Fraction,
        where: Mapping[str, Any] | None = None,
        **rest: Any,
    ) -> FiniteQuery:
        """Return a question for the sum of an :class:`Ordered` attribute.

        Values beyond the range of the attribute are clipped if the attribute declares so.

        Args:
            name: The name of the question.
            attribute: An ordered attribute; its range bounds the effect of one record.
            people: The public bound on the number of records (their exact number, where that is public).
            epsilon: The pure privacy cost of the answer for one unit; a Fraction is exact.
            where: The condition: name = value, [first, last] along an order, or codes without an order. {"values": […]}
                gives single values. A record must meet all entries.
            rest: Further fields, such as `prior` and `aim`.

        Raises:
            WorkloadError: An argument is invalid.
            DomainError: Values of a condition have no valid notation.
            TypeError: `rest` has an unknown field, or one that is set here.
        """
        return cls(name, QuestionKind.SUM, people, rational(epsilon), attribute, _at_most_one(where), **rest)

    @classmethod
    @checked(WorkloadError, "Nothing was planned.", "attribute", "where")
    def median(
        cls,
        name: str,
        attribute: str,
        *,
        people: int,
        epsilon: float | Fraction,
        where: Mapping[str, Any] | None = None,
        **rest: Any,
    ) -> FiniteQuery:
        """Return a question for the middle value of an attribute with an order; without records, its lowest value.

        Args:
            name: The name of the question.
            attribute: An attribute with an order.
            people: The public bound on the number of records (their exact number, where that is public).
            epsilon: The pure privacy cost of the answer for one unit; a Fraction is exact.
            where: The condition: name = value, [first, last] along an order, or codes without an order. {"values": […]}
                gives single values. A record must meet all entries.
            rest: Further fields, such as `prior` and `aim`.

        Raises:
            WorkloadError: An argument is invalid.
            DomainError: Values of a condition have no valid notation.
            TypeError: `rest` has an unknown field, or one that is set here.
        """
        return cls(name, QuestionKind.MEDIAN, people, rational(epsilon), attribute, _at_most_one(where), **rest)

    @classmethod
    @checked(WorkloadError, "Nothing was planned.", "attribute", "where")
    def quantile(
        cls,
        name: str,
        attribute: str,
        *,
        quantile: float | Fraction,
        people: int,
        epsilon: float | Fraction,
        where: Mapping[str, Any] | None = None,
        **rest: Any,
    ) -> FiniteQuery:
        """Return a question for the least value with a share of the records or more at or below it.

        Without records the answer is the lowest value. A float stands for the nearest fraction with a denominator up to
        `MAX_QUANTILE_DENOMINATOR`.

        Args:
            name: The name of the question.
            attribute: An attribute with an order.
            quantile: The share, above 0 and below 1.
            people: The public bound on the number of records (their exact number, where that is public).
            epsilon: The pure privacy cost of the answer for one unit; a Fraction is exact.
            where: The condition: name = value, [first, last] along an order, or codes without an order. {"values": […]}
                gives single values. A record must meet all entries.
            rest: Further fields, such as `prior` and `aim`.

        Raises:
            WorkloadError: An argument is invalid.
            DomainError: Values of a condition have no valid notation.
            TypeError: `rest` has an unknown field, or one that is set here.
        """
        conditions = _at_most_one(where)
        return cls(
            name,
            QuestionKind.QUANTILE,
            people,
            rational(epsilon),
            attribute,
            conditions,
            quantile_share=exact_level(quantile),
            **rest,
        )

    @classmethod
    @checked(WorkloadError, "Nothing was planned.", "attribute", "where")
    def left_out(cls, name: str, *, people: int, epsilon: float | Fraction, **rest: Any) -> FiniteQuery:
        """Return a question for the number of units some of whose records are not counted.

        The unit needs an id, which bounds the number of counted records of a unit. Above `people` the answer is
        `people`. One unit, with any number of records, moves it by one.

        Args:
            name: The name of the question.
            people: The largest answer.
            epsilon: The pure privacy cost of the answer for one unit; a Fraction is exact.
            rest: Further fields, such as `prior` and `aim`.

        Raises:
            WorkloadError: An argument is invalid.
            DomainError: Values of a condition have no valid notation.
            TypeError: `rest` has an unknown field, or one that is set here.
        """
        return cls(name, QuestionKind.LEFT_OUT, people, rational(epsilon), **rest)

    def in_domain(self, domain: Domain) -> CellQuestion:
        """Return the question about the cells of its values, for which the kernel has graph, margins and answer.

        Args:
            domain: The domain with the attributes and values of the question.

        Raises:
            WorkloadError: An attribute is missing, or of another kind than the question needs. The question is about
                an attribute with categories for missing values. Or it uses too many joint cells.
            DomainError: A value is not declared.
        """
        self.terms.refuse_unknown(domain)
        where = tuple(tuple((a, values.cells(domain[a])) for a, values in c) for c in self.where)
        is_quantile = self.attribute is not None and self.terms.quantile_level is not None
        values = domain[self.attribute].values if is_quantile and self.attribute is not None else ()
        question = replace(self.terms, where=where, values=values)
        question.check(domain.axes)
        return question

    def graph(self, domain: Domain, adjacency: Adjacency) -> QueryGraph:
        """Return the graph of the question (:meth:`CellQuestion.graph`).

        Args:
            domain: The domain with the attributes and values of the question.
            adjacency: The neighbour relation and its protected unit.

        Raises:
            WorkloadError: The question does not fit the domain or the unit, or its prior has another number of entries
                than there are results.
            DomainError: A value is not declared.
        """
        graph = self.in_domain(domain).graph(domain.axes, adjacency)
        if self.prior is not None and len(self.prior) != graph.n:
            raise WorkloadError(
                "prior-misfits-results",
                f"The question {self.name!r} has {graph.n:,} results, and its prior has {len(self.prior):,} numbers.",
                "",
                "Give one number for each result.",
                "Nothing was planned.",
                place="prior",
            )
        return graph


def _believed(prior: Iterable[Any]) -> tuple[float, ...]:
    """Return a prior as finite floats of at least 0; the user of the prior checks that they sum to 1."""
    try:
        probabilities = tuple(float(x) for x in prior)
    except (TypeError, ValueError):
        probabilities = ()
    if not probabilities or not all(0 <= x < math.inf for x in probabilities):
        raise WorkloadError(
            "question-prior-invalid",
            "The prior of a question is not a list of probabilities.",
            "A prior has one finite number of at least 0 for each result.",
            "Give such a list, or remove the prior.",
            "No question was made.",
            place="prior",
        )
    return probabilities


def _condition(pairs: Iterable[tuple[str, Any]]) -> Condition:
    """Return the condition sorted by attribute, so that equal conditions are equal."""
    # Sorted, since a mapping keeps the order in which it was written, and equal questions must have one plan hash.
    entries = tuple(sorted(((str(a), Selection.parse(values)) for a, values in pairs), key=lambda pair: pair[0]))
    if len({a for a, _ in entries}) != len(entries) or any(not values.items for _, values in entries):
        raise WorkloadError(
            "condition-attribute-twice",
            "A condition names an attribute twice, or without a value.",
            "",
            "Name each attribute of a condition once, with at least one value.",
            "No question was made.",
            place="where",
        )
    return entries


def _at_most_one(where: Mapping[str, Any] | None) -> tuple[Condition, ...]:
    """Return one condition, or none for None."""
    return () if where is None else (_pairs(where),)


def _pairs(where: Mapping[str, Any]) -> Condition:
    """Return {attribute: value, range or values} as pairs."""
    return tuple((a, Selection.parse(values)) for a, values in where.items())
