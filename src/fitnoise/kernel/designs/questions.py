"""Questions with one answer of finitely many, asked of the records of a domain: counts, sums, medians, quantiles.

A question is declared in public terms: what is counted or added up, at most how many records there are (or how many,
where that is public), and the ε that its answer may cost one protected unit. From these follow its graph and what must
be counted to answer it; the answer itself follows from counts alone. Nothing here sees data or draws chance.

| question | answer | one record moves it | graph |
|---|---|---|---|
| `count` | records that meet a condition | by 1 | path |
| `counts` | several counts | each by 1; disjoint ones: one of them, or two | box; triangular lattice, and like it |
| `sum` | values of an ordered attribute, added up | by the largest value, or difference | path in wide steps |
| `median` | the middle value (of an even number the lower one) | from anywhere to anywhere | complete |
| `quantile` | the least value with a share `at` of the records, or more, at or below it | likewise | complete |
| `left_out` | persons of whom some records are not counted | a *person* moves it by 1 | path |

A median and a quantile are answered by how many records are on either side of each value
(:mod:`fitnoise.kernel.designs.ranks`), or, like all others, by the true answer alone.

A unit of g records pays g times what one record pays, so the mechanism is made at ε/g; but at ε for `left_out`, which
one person by an id moves by one, however many records she has.
"""

from __future__ import annotations

import itertools
import math
import reprlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from functools import lru_cache
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from fitnoise.errors import DataError, WorkloadError
from fitnoise.kernel.arguments import checked, shown
from fitnoise.kernel.designs.choices import FiniteMechanism
from fitnoise.kernel.designs.clamped import ClampedMechanism
from fitnoise.kernel.designs.graphs import (
    RESULTS_LIMIT,
    Box,
    Complete,
    QueryGraph,
    complete,
    disjoint_counts,
    independent_counts,
)
from fitnoise.kernel.designs.lazy import LazyMechanism
from fitnoise.kernel.designs.ranks import RankMechanism, Ranks
from fitnoise.kernel.domain import Domain, Ordered
from fitnoise.kernel.exact import DENSE_LIMIT, rational
from fitnoise.kernel.selections import Selection
from fitnoise.kernel.units import Adjacency, Neighbours

MOST_PEOPLE = 2**62
"""Largest bound on the number of records."""

MOST_COUNTS = 16
"""Most counts asked together."""

MARGIN_CELLS = 2**22
"""Joint cells of the attributes one question is about."""

FINEST = 1000
"""Largest denominator of the share of a quantile."""

Condition = tuple[tuple[str, Selection], ...]
"""For some attributes the values that meet it; all of them must."""

Mechanism = FiniteMechanism | LazyMechanism | ClampedMechanism | RankMechanism


class Question(StrEnum):
    """What is asked."""

    COUNT = "count"
    COUNTS = "counts"
    SUM = "sum"
    MEDIAN = "median"
    QUANTILE = "quantile"
    LEFT_OUT = "left_out"


class Aim(StrEnum):
    """What the mechanism and the reading of its answer are best at, on average over the prior."""

    HIT_RATE = "hit-rate"
    """Right most often; of mechanisms within NEGLIGIBLE of the best, that with the least mean squared error."""
    MEAN_ABSOLUTE_ERROR = "mean-absolute-error"
    MEAN_SQUARED_ERROR = "mean-squared-error"


@final
@dataclass(frozen=True)
class FiniteQuery:
    """One question. Made by its methods that are called as questions are, such as :meth:`count` or :meth:`left_out`.

    Attributes:
        name: of the question, in releases.
        question: what is asked.
        people: at most so many records; where neighbours replace one record, exactly so many. Of `left_out` the largest
            answer: more are told as so many.
        epsilon: what the answer may cost one protected unit, exact.
        attribute: what is added up, or whose median or quantile is asked.
        where: conditions: one for each count; at most one for a sum, a median or a quantile.
        prior: what is believed of the answer beforehand, one number for every result; None holds all for equally
            likely. Privacy does not depend on it.
        aim: what the mechanism is best at.
        at: of a quantile: the share of the records that are at or below it, above 0 and below 1, with a denominator up
            to FINEST.

    Raises:
        WorkloadError: a name that is none, people that are no positive whole number, an ε that is not positive, or
            parts that do not go with the question.
    """

    name: str
    question: Question
    people: int
    epsilon: Fraction
    attribute: str | None = None
    where: tuple[Condition, ...] = ()
    prior: tuple[float, ...] | None = None
    aim: Aim = Aim.HIT_RATE
    at: Fraction | None = None

    def __post_init__(self) -> None:
        for field, kind in (("question", Question), ("aim", Aim)):
            try:
                object.__setattr__(self, field, kind(getattr(self, field)))
            except ValueError:
                choices = ", ".join(repr(str(x)) for x in kind)
                raise WorkloadError(
                    "unknown-question-kind",
                    f"The {field} of a question is {shown(getattr(self, field))}.",
                    "",
                    f"Choose one of {choices}.",
                    "No question was made.",
                    place=field,
                ) from None
        if (
            not isinstance(self.name, str)
            or not self.name
            or self.name != self.name.strip()
            or not self.name.isprintable()
        ):
            raise WorkloadError(
                "question-name-not-printable",
                "The name of a question is empty, is not printable, or has spaces around it.",
                "",
                "Give a printable name without spaces around it.",
                "No question was made.",
                place="name",
            )
        if isinstance(self.people, bool) or not isinstance(self.people, int) or not 1 <= self.people <= MOST_PEOPLE:
            raise WorkloadError(
                "people-out-of-range",
                f"people is {reprlib.repr(self.people)}.",
                "A question needs a public upper bound on the number of records, from 1 to 2^62.",
                "Set people to such a whole number, which does not come from the data.",
                "No question was made.",
                place="people",
            )
        object.__setattr__(self, "epsilon", rational(self.epsilon))
        object.__setattr__(self, "where", tuple(_condition(c) for c in self.where))
        if self.prior is not None:
            object.__setattr__(self, "prior", _believed(self.prior))
        if self.question is Question.QUANTILE:
            object.__setattr__(self, "at", _share(self.at))
        elif self.at is not None:
            raise WorkloadError(
                "at-without-quantile",
                f"A {self.question} question has a share (at).",
                "Only a quantile takes the share at.",
                "Remove at, or ask for a quantile.",
                "No question was made.",
                place="at",
            )
        if self.question is Question.LEFT_OUT and self.where:
            raise WorkloadError(
                "left-out-with-condition",
                "A left_out question has a condition.",
                "It counts all units, and takes no condition.",
                "Remove the condition.",
                "No question was made.",
                place="where",
            )
        needs = self.question not in (Question.COUNT, Question.COUNTS, Question.LEFT_OUT)
        if needs != (self.attribute is not None):
            raise _attribute_needed(self.question) if needs else _attribute_not_taken(self.question)
        if self.question is Question.COUNTS and not 2 <= len(self.where) <= MOST_COUNTS:
            raise WorkloadError(
                "conditions-out-of-range",
                f"A counts question has {len(self.where)} conditions.",
                f"Several counts need from 2 to {MOST_COUNTS} conditions, one for each count.",
                "Give one condition for each count.",
                "No question was made.",
                place="where",
            )
        if self.question is not Question.COUNTS and len(self.where) > 1:
            raise WorkloadError(
                "several-conditions",
                f"A {self.question} question has {len(self.where)} conditions.",
                "It takes at most one condition.",
                "Give one condition, or ask for several counts.",
                "No question was made.",
                place="where",
            )

    @classmethod
    @checked(WorkloadError, "Nothing was planned.", "attribute", "where")
    def count(
        cls, name: str, *, people: int, epsilon: float | Fraction, where: Mapping[str, Any] | None = None, **rest: Any
    ) -> FiniteQuery:
        """Records that meet a condition; without one, all.

        Args:
            name: of the question.
            people: public: at most so many records (exactly so many, where neighbours replace one).
            epsilon: what the answer may cost one unit, pure; a Fraction is exact.
            where: name = value, [first, last] along an order, or codes without one; {"values": […]} for single values.
                All must hold.
            rest: further fields, such as `prior` and `aim`.

        Raises:
            WorkloadError: something else is given.
        """
        return cls(name, Question.COUNT, people, rational(epsilon), None, _at_most_one(where), **rest)

    @classmethod
    @checked(WorkloadError, "Nothing was planned.", "attribute", "where")
    def counts(
        cls, name: str, *, people: int, epsilon: float | Fraction, where: Sequence[Mapping[str, Any]], **rest: Any
    ) -> FiniteQuery:
        """Several counts of the same records, answered together for one ε.

        Args:
            name: of the question.
            people: public: at most so many records (exactly so many, where neighbours replace one).
            epsilon: what the answer may cost one unit, pure; a Fraction is exact.
            where: one such mapping for each count.
            rest: further fields, such as `prior` and `aim`.

        Raises:
            WorkloadError: something else is given.
        """
        return cls(name, Question.COUNTS, people, rational(epsilon), None, tuple(map(_pairs, where)), **rest)

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
        """Values of an :class:`Ordered` attribute, added up; clipped to its range where it says so.

        Args:
            name: of the question.
            attribute: an ordered one; its range bounds what one record can change.
            people: public: at most so many records (exactly so many, where neighbours replace one).
            epsilon: what the answer may cost one unit, pure; a Fraction is exact.
            where: name = value, [first, last] along an order, or codes without one; {"values": […]} for single values.
                All must hold.
            rest: further fields, such as `prior` and `aim`.

        Raises:
            WorkloadError: something else is given.
        """
        return cls(name, Question.SUM, people, rational(epsilon), attribute, _at_most_one(where), **rest)

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
        """The middle value of an attribute with an order; of no record at all, its lowest value.

        Args:
            name: of the question.
            attribute: one with an order.
            people: public: at most so many records (exactly so many, where neighbours replace one).
            epsilon: what the answer may cost one unit, pure; a Fraction is exact.
            where: name = value, [first, last] along an order, or codes without one; {"values": […]} for single values.
                All must hold.
            rest: further fields, such as `prior` and `aim`.

        Raises:
            WorkloadError: something else is given.
        """
        return cls(name, Question.MEDIAN, people, rational(epsilon), attribute, _at_most_one(where), **rest)

    @classmethod
    @checked(WorkloadError, "Nothing was planned.", "attribute", "where")
    def quantile(
        cls,
        name: str,
        attribute: str,
        *,
        at: float | Fraction,
        people: int,
        epsilon: float | Fraction,
        where: Mapping[str, Any] | None = None,
        **rest: Any,
    ) -> FiniteQuery:
        """The least value with a share `at` of the records or more at or below it; of no record, the lowest value.

        A float stands for the nearest fraction with a denominator up to FINEST.

        Args:
            name: of the question.
            attribute: one with an order.
            at: the share, above 0 and below 1.
            people: public: at most so many records (exactly so many, where neighbours replace one).
            epsilon: what the answer may cost one unit, pure; a Fraction is exact.
            where: name = value, [first, last] along an order, or codes without one; {"values": […]} for single values.
                All must hold.
            rest: further fields, such as `prior` and `aim`.

        Raises:
            WorkloadError: something else is given.
        """
        asked = _at_most_one(where)
        return cls(name, Question.QUANTILE, people, rational(epsilon), attribute, asked, at=_share(at), **rest)

    @classmethod
    @checked(WorkloadError, "Nothing was planned.", "attribute", "where")
    def left_out(cls, name: str, *, people: int, epsilon: float | Fraction, **rest: Any) -> FiniteQuery:
        """Persons of whom some records are not counted, where an id bounds how many are; more than `people` as so many.

        One person, with any number of records, moves it by one.

        Args:
            name: of the question.
            people: the largest answer there is.
            epsilon: what the answer may cost one unit, pure; a Fraction is exact.
            rest: further fields, such as `prior` and `aim`.

        Raises:
            WorkloadError: something else is given.
        """
        return cls(name, Question.LEFT_OUT, people, rational(epsilon), **rest)

    # --- what it asks of a domain ---------------------------------------------------------------------------

    def check(self, domain: Domain) -> None:
        """Raise WorkloadError where the question cannot be asked of the domain.

        Args:
            domain: whose attributes and values it asks about.

        Raises:
            WorkloadError: an attribute is not there, or not of the kind it needs. DomainError: a value is not declared.
        """
        for a in self._attributes:
            if a not in domain:
                raise WorkloadError(
                    "question-unknown-attribute",
                    f"The question {self.name!r} uses {a!r}, which is not in the domain.",
                    "",
                    "Name an attribute of the domain, or declare this one.",
                    "Nothing was planned.",
                    place=a,
                )
        for condition in self.where:
            for a, values in condition:
                values.cells(domain[a])
        if self.question is Question.SUM and not isinstance(domain[self._asked], Ordered):
            raise WorkloadError(
                "sum-needs-ordered",
                f"The question {self.name!r} adds up {self._asked!r}, which is not an ordered attribute.",
                "A sum needs whole numbers between a lowest and a highest, so that one record can change it by a "
                "known amount only.",
                'Declare the attribute as type = "ordered", with low and high.',
                "Nothing was planned.",
                place=self._asked,
            )
        if self.share is not None and not domain[self._asked].ordered:
            raise WorkloadError(
                "quantile-needs-order",
                f"The question {self.name!r} asks for the {self.question} of {self._asked!r}, whose values have no "
                "order.",
                "",
                "Ask for it of an attribute whose values have an order.",
                "Nothing was planned.",
                place=self._asked,
            )
        if self.attribute is not None and domain[self.attribute].beside:
            raise WorkloadError(
                "question-about-missing-category",
                f"The question {self.name!r} asks for the {self.question} of {self.attribute!r}, which has "
                "categories for missing values.",
                "These categories have no place in the order of the values.",
                'Ask for it of an attribute of the same column that drops other values (absent = "drop", outside = '
                '"drop").',
                "Nothing was planned.",
                place=self.attribute,
            )
        for margin in self.margins(domain):
            cells = math.prod(domain[a].size for a in margin)
            if cells > MARGIN_CELLS:
                raise WorkloadError(
                    "question-too-many-cells",
                    f"The question {self.name!r} uses attributes with {cells:,} joint cells.",
                    f"At most {MARGIN_CELLS:,} joint cells are counted for one question.",
                    "Use fewer or coarser attributes in the question.",
                    "Nothing was planned.",
                )

    @property
    def _asked(self) -> str:
        assert self.attribute is not None  # noqa: S101 - checked when made
        return self.attribute

    @property
    def share(self) -> Fraction | None:
        """Of a median or a quantile: the share of the records that are at or below it."""
        return Fraction(1, 2) if self.question is Question.MEDIAN else self.at

    def ranks(self, of: Adjacency) -> Ranks | None:
        """How a median or a quantile is answered by ranks.

        Args:
            of: when two databases are neighbours, and for whom.

        Returns:
            None of a question that is none of these.
        """
        replaces = Neighbours.REPLACE_ONE in of.steps
        return None if self.share is None else Ranks(self.share, self.people, replaces)

    @property
    def _attributes(self) -> tuple[str, ...]:
        named = [a for condition in self.where for a, _ in condition]
        return tuple(dict.fromkeys([*named, *([] if self.attribute is None else [self.attribute])]))

    def margins(self, domain: Domain) -> tuple[tuple[str, ...], ...]:
        """What must be counted: for every condition its attributes, with the question's own, in domain order.

        The number of all records is known from any of them; where a count has no condition, from the first attribute.
        Of `left_out` nothing.

        Args:
            domain: of the records.
        """
        if self.question is Question.LEFT_OUT:
            return ()
        order = {a: i for i, a in enumerate(domain.sizes)}
        own = () if self.attribute is None else (self.attribute,)
        sets = [{*own, *(a for a, _ in c)} for c in self.where or ((),)]
        return tuple(tuple(sorted(s or {next(iter(domain))}, key=order.__getitem__)) for s in sets)

    def graph(self, domain: Domain, of: Adjacency) -> QueryGraph:
        """Which answers one record can turn into which.

        Args:
            domain: of the records.
            of: what neighbours are. Where they replace one record, the number of records is `people`; otherwise, and
                where a unit may have fewer records or records are dropped, it is anything up to that.

        Raises:
            WorkloadError: the answer can only be one, or has too many results.

        **Guarantees**
            * for tables of as many records as said, every pair of answers of neighbouring tables is an edge, or equal.
        """
        self.check(domain)
        graph = graph_of(self.shape(domain, of))
        try:
            rational(self.record_epsilon(of))
        except WorkloadError as error:
            raise WorkloadError(
                "epsilon-per-record-too-small",
                f"A unit has up to {of.records:,} records, so the question {self.name!r} can spend 1/{of.records:,} "
                "of its ε on each.",
                f"{error.given} {error.needed}",
                "Take a larger ε, or count fewer records of each unit.",
                "Nothing was planned.",
            ) from None
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

    def shape(self, domain: Domain, of: Adjacency) -> tuple[Any, ...]:
        """What the graph depends on: equal shapes, equal graphs.

        Args:
            domain: of the records.
            of: when two databases are neighbours, and for whom.
        """
        if self.share is not None:
            return Question.MEDIAN, domain[self._asked].values
        if self.question is Question.COUNTS:
            return Question.COUNTS, self.people, len(self.where), self._disjoint(domain)
        if self.question is Question.LEFT_OUT:
            return Question.SUM, 0, self.people, 1
        if self.question is Question.COUNT:
            values, some = [1], bool(self.where)
        else:
            attribute = domain[self._asked]
            assert isinstance(attribute, Ordered)  # noqa: S101 - checked before
            values, some = [attribute.low, attribute.high], bool(self.where)
        adds = [*values, 0] if some or not of.fixes_size else values  # 0: what is not there
        low, high = min(adds), max(adds)
        if low == high:
            raise WorkloadError(
                "answer-already-public",
                f"The answer to {self.name!r} follows from the number of records, which is public.",
                "",
                "Remove the question, and publish this answer as it is.",
                "Nothing was planned.",
            )
        return Question.SUM, self.people * low, self.people * high, high - low

    def _disjoint(self, domain: Domain) -> bool:
        """Whether no record meets two conditions."""
        met = [{a: {*values.cells(domain[a])} for a, values in c} for c in self.where]
        pairs = [(x, y) for i, x in enumerate(met) for y in met[:i]]
        return all(any(a in y and not x[a] & y[a] for a in x) for x, y in pairs)

    def steps(self, of: Adjacency) -> int:
        """How many steps of its graph a unit takes at most: one for each of its records; one person by an id one alone.

        Records of another unit may be those of as many persons.

        Args:
            of: when two databases are neighbours, and for whom.
        """
        return 1 if self.question is Question.LEFT_OUT and of.unit.id is not None else of.records

    def record_epsilon(self, of: Adjacency) -> Fraction:
        """What one step of its graph may cost: ε/g, for one record.

        Args:
            of: when two databases are neighbours, and for whom.
        """
        return self.epsilon / self.steps(of)

    def fits(self, domain: Domain, of: Adjacency, mechanism: Mechanism) -> bool:
        """Whether a mechanism is for this question: of its graph, made for its ε, and drawn from in even time.

        Args:
            domain: of the records.
            of: when two databases are neighbours, and for whom.
            mechanism: which.
        """
        return mechanism.epsilon == self.record_epsilon(of) and self.bounds(domain, of, mechanism)

    def bounds(self, domain: Domain, of: Adjacency, mechanism: Mechanism) -> bool:
        """Whether what a mechanism costs one record is proven for such neighbours: its graph is theirs.

        Args:
            domain: of the records.
            of: when two databases are neighbours, and for whom.
            mechanism: which.
        """
        own, other = self.graph(domain, of), mechanism.graph
        if own is not other:
            if (
                not isinstance(other, QueryGraph)
                or type(own.structure) is not type(other.structure)
                or own.n != other.n
            ):
                return False
            said = isinstance(own.structure, Box | Complete)
            same = own.structure == other.structure if said else np.array_equal(own.edges, other.edges)
            if not same or not all(a == b for a, b in zip(own.results, other.results, strict=True)):
                return False
        scored = not isinstance(mechanism, RankMechanism) or mechanism.ranks == self.ranks(of)
        return scored and mechanism.even

    # --- the answer ---------------------------------------------------------------------------------------------

    def answer(self, domain: Domain, of: Adjacency, counts: Sequence[NDArray[Any]]) -> Any:
        """The true answer, a label of the graph, from exact counts of `margins`, in their order.

        Of `left_out`, from the number of persons alone.

        Raises:
            DataError: there are more records than `people`, or, where neighbours replace one, not as many. The message
                does not say how many there are.
        """
        if self.question is Question.LEFT_OUT:
            return min(int(counts[0]), self.people)
        kept = self._counted(domain, of, counts)
        if self.question is Question.COUNT:
            return int(kept[0].sum())
        if self.question is Question.COUNTS:
            return tuple(int(x.sum()) for x in kept)
        by_value = self._by_value(domain, kept[0])
        values = domain[self._asked].values
        if self.share is None:
            return sum(c * int(v) for c, v in zip(by_value, values, strict=True))
        least, below = math.ceil(self.share * sum(by_value)), itertools.accumulate(by_value)
        return next(v for c, v in zip(below, values, strict=True) if c >= least)

    def records(self, domain: Domain, of: Adjacency, counts: Sequence[NDArray[Any]]) -> list[int]:
        """How many records have each value of the attribute, in order, from exact counts of `margins`.

        Raises:
            DataError: as :meth:`answer`.
        """
        return self._by_value(domain, self._counted(domain, of, counts)[0])

    def _counted(self, domain: Domain, of: Adjacency, counts: Sequence[NDArray[Any]]) -> list[NDArray[np.int64]]:
        """The counts of cells that meet each condition, once there are as many records as was declared."""
        records = int(counts[0].sum())
        if records > self.people or (records != self.people and of.fixes_size):
            bound = "exactly" if of.fixes_size else "at most"
            raise DataError(
                "people-misfits-data",
                f"The question {self.name!r} is declared for {bound} {self.people:,} records, and the data have "
                "another number.",
                "Only for the declared number is the answer among the results of the question.",
                "Correct people, if the number is public, and plan again.",
                "Nothing was measured and nothing was charged.",
                place="people",
            )
        asked = zip(self.margins(domain), counts, self.where or ((),), strict=True)
        return [self._kept(domain, margin, x, condition) for margin, x, condition in asked]

    def _by_value(self, domain: Domain, kept: NDArray[np.int64]) -> list[int]:
        """Counts added up over all attributes but the one that is asked about."""
        axis = self.margins(domain)[0].index(self._asked)
        return [int(c) for c in kept.sum(axis=tuple(i for i in range(kept.ndim) if i != axis))]

    def _kept(
        self, domain: Domain, margin: Sequence[str], counts: NDArray[Any], condition: Condition
    ) -> NDArray[np.int64]:
        """The counts of cells that meet a condition; others are 0."""
        kept = np.asarray(counts, dtype=np.int64)
        for a, values in condition:
            met = np.zeros(domain[a].size, dtype=np.int64)
            met[list(values.cells(domain[a]))] = 1
            shape = [1] * kept.ndim
            shape[margin.index(a)] = -1
            kept = kept * met.reshape(shape)
        return kept


@lru_cache(maxsize=64)
def graph_of(shape: tuple[Any, ...]) -> QueryGraph:
    """The graph of a question of this shape (:meth:`FiniteQuery.shape`)."""
    kind, *parts = shape
    if kind is Question.MEDIAN:
        (values,) = parts
        return QueryGraph(values, complete(len(values)).structure)
    if kind is Question.COUNTS:
        people, counts, disjoint = parts
        if disjoint and math.comb(people + counts, counts) <= DENSE_LIMIT:
            return disjoint_counts(people, counts)
        if (people + 1) ** counts > RESULTS_LIMIT:
            raise WorkloadError(
                "counts-too-many-results",
                f"{counts} counts of {people:,} records have {(people + 1) ** counts:,} joint results.",
                f"At most {RESULTS_LIMIT:,} results can be planned.",
                "Ask for fewer counts at once.",
                "Nothing was planned.",
            )
        return independent_counts(*[people] * counts)
    low, high, step = parts
    n = high - low + 1
    if n > RESULTS_LIMIT:
        raise WorkloadError(
            "sum-too-fine",
            f"The sum has {n:,} possible results.",
            f"At most {RESULTS_LIMIT:,} results can be planned.",
            "Ask for the sum of a coarser attribute, or state fewer people.",
            "Nothing was planned.",
        )
    return QueryGraph(range(low, high + 1), Box((n,), (step,)))


def _attribute_needed(question: Question) -> WorkloadError:
    """Return the error for a question without the attribute that it needs."""
    return WorkloadError(
        "question-needs-attribute",
        f"A {question} question has no attribute.",
        "",
        f"Name the attribute of the {question}.",
        "No question was made.",
        place="attribute",
    )


def _attribute_not_taken(question: Question) -> WorkloadError:
    """Return the error for a question with an attribute, of a kind that takes none."""
    return WorkloadError(
        "question-takes-no-attribute",
        f"A {question} question has an attribute.",
        "",
        "Remove the attribute, or state it as a condition.",
        "No question was made.",
        place="attribute",
    )


def _share(at: object) -> Fraction:
    """The share of a quantile, of a float the nearest fraction that there is."""
    own = Fraction(at).limit_denominator(FINEST) if isinstance(at, float) and 0 < at < 1 else at
    if not isinstance(own, Fraction) or not 0 < own < 1 or own.denominator > FINEST:
        raise WorkloadError(
            "quantile-share-out-of-range",
            f"The share of a quantile (at) is {reprlib.repr(at)}.",
            f"A share is a fraction above 0 and below 1 with a denominator of at most {FINEST:,}.",
            "Give such a fraction, for example Fraction(9, 10).",
            "No question was made.",
            place="at",
        )
    return own


def _believed(prior: Iterable[Any]) -> tuple[float, ...]:
    """A prior as floats, none negative; that it sums to 1 is checked where it is used."""
    try:
        own = tuple(float(x) for x in prior)
    except (TypeError, ValueError):
        own = ()
    if not own or not all(0 <= x < math.inf for x in own):
        raise WorkloadError(
            "question-prior-invalid",
            "The prior of a question is not a list of probabilities.",
            "A prior has one finite number of at least 0 for each result.",
            "Give such a list, or remove the prior.",
            "No question was made.",
            place="prior",
        )
    return own


def _condition(given: Iterable[tuple[str, Any]]) -> Condition:
    """In one form, sorted by attribute, so that equal conditions are equal."""
    own = tuple(sorted(((str(a), Selection.parse(values)) for a, values in given), key=lambda pair: pair[0]))
    if len({a for a, _ in own}) != len(own) or any(not values.items for _, values in own):
        raise WorkloadError(
            "condition-attribute-twice",
            "A condition names an attribute twice, or without a value.",
            "",
            "Name each attribute of a condition once, with at least one value.",
            "No question was made.",
            place="where",
        )
    return own


def _at_most_one(where: Mapping[str, Any] | None) -> tuple[Condition, ...]:
    """The condition, if there is one."""
    return () if where is None else (_pairs(where),)


def _pairs(where: Mapping[str, Any]) -> Condition:
    """{attribute: value, range or values} as pairs."""
    return tuple((a, Selection.parse(values)) for a, values in where.items())
