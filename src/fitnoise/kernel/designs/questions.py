"""Define questions with finitely many answers about the records of a domain: counts, sums, medians, quantiles.

The publisher declares a question in public terms: its subject, a bound on the number of records, and ε. Where the
number is public, it replaces the bound. ε is the privacy cost of the answer for one protected unit. The graph of the
question and the margins to count follow from these terms, in cells of axes. The answer follows from counts alone. This
module reads no data and draws no noise.

| question | answer | effect of one record | graph |
|---|---|---|---|
| `count` | records that meet a condition | by 1 | path |
| `counts` | several counts | each by 1; disjoint ones: one of them, or two | box; triangular lattice, or similar |
| `sum` | sum of the values of an ordered attribute | by the largest value, or difference | path in wide steps |
| `median` | the middle value (of an even number the lower one) | from any value to any value | complete |
| `quantile` | the least value with a share of the records, or more, at or below it | as for a median | complete |
| `left_out` | units some of whose records are not counted | a *unit* moves it by 1 | path |

Two mechanisms can answer a median or a quantile. One uses the numbers of records on either side of each value
(:mod:`fitnoise.kernel.designs.ranks`); the other uses the true answer alone, as for all other questions.

A unit of g records costs g times the cost of one record, so the mechanism is made at ε/g. For `left_out` of units with
an id it is made at ε: one unit moves this answer by one, regardless of the number of its records.
"""

from __future__ import annotations

import itertools
import math
import reprlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from functools import lru_cache
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from fitnoise.errors import DataError, WorkloadError
from fitnoise.kernel.checks import describe_value
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
from fitnoise.kernel.designs.implicit_mechanisms import ImplicitMechanism
from fitnoise.kernel.designs.probability_tables import FiniteMechanism
from fitnoise.kernel.designs.ranks import RankMechanism, RankScores
from fitnoise.kernel.domain import Domain
from fitnoise.kernel.exact_powers import DENSE_LIMIT, rational
from fitnoise.kernel.units import Adjacency, Neighbours

MAX_PEOPLE = 2**62
"""The largest bound on the number of records."""

MAX_CONDITIONS = 16
"""The largest number of counts in one question."""

MARGIN_CELLS = 2**22
"""The largest number of joint cells of the attributes in one question."""

MAX_QUANTILE_DENOMINATOR = 1000
"""The largest denominator of the share of a quantile."""

Condition = tuple[tuple[str, tuple[int, ...]], ...]
"""The cells that meet the condition, for each of some axes; a record must meet all of them."""

Mechanism = FiniteMechanism | ImplicitMechanism | ClampedMechanism | RankMechanism


class QuestionKind(StrEnum):
    """The kind of answer that a question requests."""

    COUNT = "count"
    COUNTS = "counts"
    SUM = "sum"
    MEDIAN = "median"
    QUANTILE = "quantile"
    LEFT_OUT = "left_out"


@final
@dataclass(frozen=True)
class CellQuestion:
    """One question about cells of axes. Publishers write it as `FiniteQuery` (`fitnoise.request.finite_queries`).

    Attributes:
        name: The name of the question in releases.
        question: The kind of the question.
        people: The largest number of records; where the number is public (`Adjacency.fixes_size`), their exact number.
            For `left_out` the largest answer, which also stands for more.
        epsilon: The exact privacy cost of the answer for one protected unit.
        attribute: The attribute whose sum, median or quantile the question requests.
        where: The conditions: one for each of several counts, none for `left_out`, and at most one for other kinds.
        quantile_share: The share of the records at or below a quantile, above 0 and below 1, with a denominator up to
            `MAX_QUANTILE_DENOMINATOR`.
        values: For a median or a quantile, the answer for each cell of the attribute, in order.

    Raises:
        WorkloadError: The name is not printable, `people` or ε is out of range, or a field does not fit the question.
    """

    name: str
    question: QuestionKind
    people: int
    epsilon: Fraction
    attribute: str | None = None
    where: tuple[Condition, ...] = ()
    quantile_share: Fraction | None = None
    values: tuple[str | int, ...] = ()

    def __post_init__(self) -> None:
        try:
            object.__setattr__(self, "question", QuestionKind(self.question))
        except ValueError:
            raise unknown_kind("question", self.question, QuestionKind) from None
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
        if isinstance(self.people, bool) or not isinstance(self.people, int) or not 1 <= self.people <= MAX_PEOPLE:
            raise WorkloadError(
                "people-out-of-range",
                f"people is {reprlib.repr(self.people)}.",
                "A question needs a public upper bound on the number of records, from 1 to 2^62.",
                "Set people to such a whole number, which does not come from the data.",
                "No question was made.",
                place="people",
            )
        object.__setattr__(self, "epsilon", rational(self.epsilon))
        if self.question is QuestionKind.QUANTILE:
            object.__setattr__(self, "quantile_share", exact_level(self.quantile_share))
        elif self.quantile_share is not None:
            raise WorkloadError(
                "quantile-of-other-question",
                f"A {self.question} question has the key quantile.",
                "Only a question of the kind quantile takes it.",
                "Remove quantile, or ask for a quantile.",
                "No question was made.",
                place="quantile",
            )
        object.__setattr__(self, "where", tuple(self.where))
        if not all(map(_is_condition, self.where)) or type(self.values) is not tuple:
            raise WorkloadError(
                "condition-cells-invalid",
                "The conditions of a question are not cells of different attributes, or its answers are no tuple.",
                "A condition has a tuple of whole numbers from 0 for each of its attributes.",
                "Give such cells.",
                "No question was made.",
                place="where",
            )
        # Left-out records are counted by unit, before cells: no condition on cells can apply.
        if self.question is QuestionKind.LEFT_OUT and self.where:
            raise WorkloadError(
                "left-out-with-condition",
                "A left_out question has a condition.",
                "It counts all units, and takes no condition.",
                "Remove the condition.",
                "No question was made.",
                place="where",
            )
        needs = self.question not in (QuestionKind.COUNT, QuestionKind.COUNTS, QuestionKind.LEFT_OUT)
        if needs != (self.attribute is not None):
            raise _attribute_needed(self.question) if needs else _attribute_not_taken(self.question)
        if self.question is QuestionKind.COUNTS and not 2 <= len(self.where) <= MAX_CONDITIONS:
            raise WorkloadError(
                "conditions-out-of-range",
                f"A counts question has {len(self.where)} conditions.",
                f"Several counts need from 2 to {MAX_CONDITIONS} conditions, one for each count.",
                "Give one condition for each count.",
                "No question was made.",
                place="where",
            )
        if self.question is not QuestionKind.COUNTS and len(self.where) > 1:
            raise WorkloadError(
                "several-conditions",
                f"A {self.question} question has {len(self.where)} conditions.",
                "It takes at most one condition.",
                "Give one condition, or ask for several counts.",
                "No question was made.",
                place="where",
            )

    # --- what it asks of a domain ---------------------------------------------------------------------------

    def check(self, domain: Domain) -> None:
        """Raise WorkloadError if the question does not fit the domain.

        Args:
            domain: The domain with the attributes and values of the question.

        Raises:
            WorkloadError: An attribute is missing, or of another kind than the question needs. The question is about
                an attribute with categories for missing values. Or a margin has more than `MARGIN_CELLS` cells.
            DomainError: A value is not declared.
        """
        self.refuse_unknown(domain)
        for a, cells in itertools.chain.from_iterable(self.where):
            if max(cells) >= domain[a].size:
                raise WorkloadError(
                    "condition-cell-unknown",
                    f"A condition of the question {self.name!r} names a cell that {a!r} does not have.",
                    "",
                    "Name cells of the attribute, from 0.",
                    "Nothing was planned.",
                    place=a,
                )
        if self.question is QuestionKind.SUM and domain[self._queried_attributes].coding.values.integers is None:
            raise WorkloadError(
                "sum-needs-ordered",
                f"The question {self.name!r} adds up {self._queried_attributes!r}, which is not an ordered attribute.",
                "A sum needs whole numbers between a lowest and a highest, so that one record can change it by a "
                "known amount only.",
                'Declare the attribute as type = "ordered", with low and high.',
                "Nothing was planned.",
                place=self._queried_attributes,
            )
        if self.quantile_level is not None and not domain[self._queried_attributes].ordered:
            raise WorkloadError(
                "quantile-needs-order",
                f"The question {self.name!r} asks for the {self.question} of {self._queried_attributes!r}, whose "
                f"values have no "
                "order.",
                "",
                "Ask for it of an attribute whose values have an order.",
                "Nothing was planned.",
                place=self._queried_attributes,
            )
        if self.attribute is not None and domain[self.attribute].size > domain[self.attribute].own_size:
            raise WorkloadError(
                "question-about-missing-category",
                f"The question {self.name!r} asks for the {self.question} of {self.attribute!r}, which has "
                "categories for missing values.",
                "These categories have no place in the order of the values.",
                'Ask for it of an attribute of the same column that drops other values (if_missing = "drop", '
                'if_outside = "drop"). Every table and question then leaves these records out.',
                "Nothing was planned.",
                place=self.attribute,
            )
        if self.quantile_level is not None and len(self.values) != domain[self._queried_attributes].size:
            raise WorkloadError(
                "question-values-misfit",
                f"The question {self.name!r} has {len(self.values):,} answers for the cells of "
                f"{self._queried_attributes!r}.",
                "A median or a quantile has one answer for each cell.",
                "Give one answer for each cell, in order.",
                "Nothing was planned.",
                place=self._queried_attributes,
            )
        for margin in self.margins(domain):
            n = math.prod(domain[a].size for a in margin)
            if n > MARGIN_CELLS:
                raise WorkloadError(
                    "question-too-many-cells",
                    f"The question {self.name!r} uses attributes with {n:,} joint cells.",
                    f"At most {MARGIN_CELLS:,} joint cells are counted for one question.",
                    "Use fewer or coarser attributes in the question.",
                    "Nothing was planned.",
                )

    def refuse_unknown(self, domain: Collection[str]) -> None:
        """Raise WorkloadError for an attribute that the domain does not have.

        Args:
            domain: The names of the attributes and levels of a domain.
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

    @property
    def _queried_attributes(self) -> str:
        assert self.attribute is not None  # noqa: S101 - checked when made
        return self.attribute

    @property
    def quantile_level(self) -> Fraction | None:
        """The share of the records at or below a median or a quantile; None for other questions."""
        return Fraction(1, 2) if self.question is QuestionKind.MEDIAN else self.quantile_share

    def ranks(self, adjacency: Adjacency) -> RankScores | None:
        """Return the ranks by which a median or a quantile is answered.

        Args:
            adjacency: The neighbour relation and its protected unit.

        Returns:
            The ranks; None for other questions.
        """
        # A replaced record moves the ranks by more than an added one, so the scores depend on the relation.
        replaces = Neighbours.REPLACE_ONE in adjacency.step_relations
        return None if self.quantile_level is None else RankScores(self.quantile_level, self.people, replaces)

    @property
    def _attributes(self) -> tuple[str, ...]:
        condition_attributes = [a for condition in self.where for a, _ in condition]
        return tuple(dict.fromkeys([*condition_attributes, *([] if self.attribute is None else [self.attribute])]))

    def margins(self, domain: Domain) -> tuple[tuple[str, ...], ...]:
        """Return the margins to count: for each condition its attributes and the question's own, in domain order.

        Each margin gives the number of all records. A count without a condition takes the first attribute. A `left_out`
        question has no margin.

        Args:
            domain: The domain of the records.
        """
        if self.question is QuestionKind.LEFT_OUT:
            return ()
        order = {a: i for i, a in enumerate(domain.sizes)}
        queried = () if self.attribute is None else (self.attribute,)
        sets = [{*queried, *(a for a, _ in c)} for c in self.where or ((),)]
        # Any attribute has all records; the count of all is then compared with `people`.
        return tuple(tuple(sorted(s or {next(iter(domain))}, key=order.__getitem__)) for s in sets)

    def graph(self, domain: Domain, adjacency: Adjacency) -> QueryGraph:
        """Return the graph of the question, with an edge for any two answers that one record turns into each other.

        A graph of a simple form may have further edges, which cost accuracy and no privacy. For `left_out`, read one
        unit for one record.

        Args:
            domain: The domain of the records.
            adjacency: The neighbour relation and its protected unit. `people` is the number of records where the
                relation fixes this number (`fixes_size`), and otherwise a bound on it.

        Raises:
            WorkloadError: The answer can only be one value, or it has too many results. Or ε is too small for one step,
                or see :meth:`check`.

        **Guarantees**
            * For tables with the declared number of records, every pair of answers of neighbouring tables is equal or
              an edge.
        """
        self.check(domain)
        graph = graph_of(self.shape(domain, adjacency))
        # A mechanism would refuse this ε, too; only here does the error name its reason, the records of a unit.
        try:
            rational(self.record_epsilon(adjacency))
        except WorkloadError as error:
            raise WorkloadError(
                "epsilon-per-record-too-small",
                f"A unit has up to {adjacency.records:,} records, so the question {self.name!r} can spend "
                f"1/{adjacency.records:,} "
                "of its ε on each.",
                f"{error.given} {error.needed}",
                "Take a larger ε, or count fewer records of each unit.",
                "Nothing was planned.",
            ) from None
        return graph

    def shape(self, domain: Domain, adjacency: Adjacency) -> tuple[Any, ...]:
        """Return the parameters of the graph, for `graph_of`: equal shapes give equal graphs.

        Args:
            domain: The domain of the records, which the question fits (`check`).
            adjacency: The neighbour relation and its protected unit.

        Raises:
            WorkloadError: The answer follows from the public number of records.
        """
        if self.quantile_level is not None:
            return QuestionKind.MEDIAN, self.values
        if self.question is QuestionKind.COUNTS:
            return QuestionKind.COUNTS, self.people, len(self.where), self._disjoint()
        if self.question is QuestionKind.LEFT_OUT:
            return QuestionKind.SUM, 0, self.people, 1
        if self.question is QuestionKind.COUNT:
            values, is_conditional = [1], bool(self.where)
        else:
            integers = domain[self._queried_attributes].coding.values.integers
            assert integers is not None  # noqa: S101 - checked before
            values, is_conditional = [integers[0], integers[-1]], bool(self.where)
        # 0 is the value of a record that is absent, or that the condition excludes.
        adds = [*values, 0] if is_conditional or not adjacency.fixes_size else values
        low, high = min(adds), max(adds)
        if low == high:
            raise WorkloadError(
                "answer-already-public",
                f"The answer to {self.name!r} follows from the number of records, which is public.",
                "",
                "Remove the question, and publish this answer as it is.",
                "Nothing was planned.",
            )
        return QuestionKind.SUM, self.people * low, self.people * high, high - low

    def _disjoint(self) -> bool:
        """Return True if no record can meet two conditions."""
        cell_sets = [{a: {*cells} for a, cells in c} for c in self.where]
        pairs = [(x, y) for i, x in enumerate(cell_sets) for y in cell_sets[:i]]
        # Conditions without a common attribute can always meet in one record.
        return all(any(a in y and not x[a] & y[a] for a in x) for x, y in pairs)

    def steps(self, adjacency: Adjacency) -> int:
        """Return the largest number of steps of the graph that one unit takes.

        A unit with an id takes one step of a `left_out` question. In all other cases a unit takes one step for each of
        its records. The records of a unit without an id may belong to as many units that have one.

        Args:
            adjacency: The neighbour relation and its protected unit.
        """
        return 1 if self.question is QuestionKind.LEFT_OUT and adjacency.unit.id is not None else adjacency.records

    def record_epsilon(self, adjacency: Adjacency) -> Fraction:
        """Return the ε of one step of the graph: ε divided by the number of steps of a unit.

        Args:
            adjacency: The neighbour relation and its protected unit.
        """
        return self.epsilon / self.steps(adjacency)

    def accepts(self, domain: Domain, adjacency: Adjacency, mechanism: Mechanism) -> bool:
        """Return True if a mechanism answers this question: `bounds` holds, and its ε is that of one step.

        `record_epsilon` returns the ε of one step.

        Args:
            domain: The domain of the records.
            adjacency: The neighbour relation and its protected unit.
            mechanism: The mechanism to check.
        """
        return mechanism.epsilon == self.record_epsilon(adjacency) and self.bounds(domain, adjacency, mechanism)

    def bounds(self, domain: Domain, adjacency: Adjacency, mechanism: Mechanism) -> bool:
        """Return True if the cost of a mechanism for one step of the graph is proven for these neighbours.

        This requires that its graph is the graph of the question, its ranks are those of the question, and
        `is_constant_time` is True.

        Args:
            domain: The domain of the records.
            adjacency: The neighbour relation and its protected unit.
            mechanism: The mechanism to check.
        """
        graph, other = self.graph(domain, adjacency), mechanism.graph
        if graph is not other:
            if (
                not isinstance(other, QueryGraph)
                or type(graph.structure) is not type(other.structure)
                or graph.n != other.n
            ):
                return False
            is_comparable = isinstance(graph.structure, Box | Complete)
            same = graph.structure == other.structure if is_comparable else np.array_equal(graph.edges, other.edges)
            # Labels are compared too: the reader sees the label of an output, not its position.
            if not same or not all(a == b for a, b in zip(graph.results, other.results, strict=True)):
                return False
        scored = not isinstance(mechanism, RankMechanism) or mechanism.ranks == self.ranks(adjacency)
        return scored and mechanism.is_constant_time

    # --- the answer ---------------------------------------------------------------------------------------------

    def answer(self, domain: Domain, adjacency: Adjacency, counts: Sequence[NDArray[Any]]) -> Any:
        """Return the true answer, a label of the graph, from exact counts of `margins`, in their order.

        Args:
            domain: The domain of the records.
            adjacency: The neighbour relation and its protected unit.
            counts: The counts of each margin; for `left_out` only the number of units.

        Raises:
            DataError: There are more records than `people` or, where their number is public, another number. Records
                that do not meet the condition are among them. The message does not give their number.
        """
        if self.question is QuestionKind.LEFT_OUT:
            # Clamping changes the answer by at most as much as the data do, so one unit still moves it by 1.
            return min(int(counts[0]), self.people)
        counted = self._counted(domain, adjacency, counts)
        if self.question is QuestionKind.COUNT:
            return int(counted[0].sum())
        if self.question is QuestionKind.COUNTS:
            return tuple(int(x.sum()) for x in counted)
        by_value = self._by_value(domain, counted[0])
        if self.quantile_level is None:
            integers = domain[self._queried_attributes].coding.values.integers
            assert integers is not None  # noqa: S101 - checked before
            return sum(c * v for c, v in zip(by_value, integers, strict=True))
        # Without records the rank is 0, which the lowest value reaches.
        rank, below = math.ceil(self.quantile_level * sum(by_value)), itertools.accumulate(by_value)
        return next(v for c, v in zip(below, self.values, strict=True) if c >= rank)

    def records(self, domain: Domain, adjacency: Adjacency, counts: Sequence[NDArray[Any]]) -> list[int]:
        """Return the number of records with each value of the question's attribute, in the order of the values.

        Only records that meet the condition of the question count.

        Args:
            domain: The domain of the records.
            adjacency: The neighbour relation and its protected unit.
            counts: The exact counts of each margin of `margins`, of all records.

        Raises:
            DataError: There are more records than `people` or, where their number is public, another number. Records
                that do not meet the condition are among them.
        """
        return self._by_value(domain, self._counted(domain, adjacency, counts)[0])

    def _counted(self, domain: Domain, adjacency: Adjacency, counts: Sequence[NDArray[Any]]) -> list[NDArray[np.int64]]:
        """Return, for each condition, the counts of its margin: in its shape, with 0 in cells that do not meet it.

        Raises:
            DataError: There are more records than declared or, where their number is public, another number.
        """
        records = int(counts[0].sum())
        # A true answer outside the graph has no row, so such data are refused before the charge.
        if records > self.people or (records != self.people and adjacency.fixes_size):
            bound, excess = ("exactly", "another number") if adjacency.fixes_size else ("at most", "more")
            raise DataError(
                "people-misfits-data",
                f"The question {self.name!r} is declared for {bound} {self.people:,} records, and the data have "
                f"{excess}.",
                f"For {bound} the declared number, the answer is among the results of the question.",
                "Correct people, if the number is public, and plan again.",
                "Nothing was measured and nothing was charged.",
                place="people",
            )
        by_condition = zip(self.margins(domain), counts, self.where or ((),), strict=True)
        return [self._matching_counts(domain, margin, x, condition) for margin, x, condition in by_condition]

    def _by_value(self, domain: Domain, counted: NDArray[np.int64]) -> list[int]:
        """Return the sum of these counts for each value of the question's attribute, in the order of the values."""
        axis = self.margins(domain)[0].index(self._queried_attributes)
        return [int(c) for c in counted.sum(axis=tuple(i for i in range(counted.ndim) if i != axis))]

    def _matching_counts(
        self, domain: Domain, margin: Sequence[str], counts: NDArray[Any], condition: Condition
    ) -> NDArray[np.int64]:
        """Return the counts of the margin, in their shape, with 0 in each cell that does not meet the condition."""
        matching = np.asarray(counts, dtype=np.int64)
        for a, cells in condition:
            indicator = np.zeros(domain[a].size, dtype=np.int64)
            indicator[list(cells)] = 1
            shape = [1] * matching.ndim
            shape[margin.index(a)] = -1
            # Every cell is multiplied, whether it matches or not: the time does not depend on the counts.
            matching = matching * indicator.reshape(shape)
        return matching


@lru_cache(maxsize=64)
def graph_of(shape: tuple[Any, ...]) -> QueryGraph:
    """Return the graph of a question of a shape (:meth:`CellQuestion.shape`); raise WorkloadError if it is too large.

    Equal shapes give one graph object, as long as it is among the last 64.
    """
    kind, *parts = shape
    if kind is QuestionKind.MEDIAN:
        (values,) = parts
        return QueryGraph(values, complete(len(values)).structure)
    if kind is QuestionKind.COUNTS:
        people, counts, disjoint = parts
        # A box has every edge of disjoint counts too: with more results it costs accuracy, and no privacy.
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


def _is_condition(condition: Any) -> bool:
    """Return True for pairs of different names, each with whole numbers from 0."""
    pairs = type(condition) is tuple and all(type(x) is tuple and [*map(type, x)] == [str, tuple] for x in condition)
    return (
        pairs
        and len({a for a, _ in condition}) == len(condition)
        and all(x and all(type(i) is int and i >= 0 for i in x) for _, x in condition)
    )


def unknown_kind(field: str, value: object, kind: type[StrEnum]) -> WorkloadError:
    """Return the error for a field of a question with a value outside its enumeration.

    Args:
        field: The name of the field.
        value: The value of the field.
        kind: The enumeration.
    """
    choices = ", ".join(repr(str(x)) for x in kind)
    return WorkloadError(
        "unknown-question-kind",
        f"The {field} of a question is {describe_value(value)}.",
        "",
        f"Choose one of {choices}.",
        "No question was made.",
        place=field,
    )


def _attribute_needed(question: QuestionKind) -> WorkloadError:
    """Return the error for a question without the attribute that it needs."""
    return WorkloadError(
        "question-needs-attribute",
        f"A {question} question has no attribute.",
        "",
        f"Name the attribute of the {question}.",
        "No question was made.",
        place="attribute",
    )


def _attribute_not_taken(question: QuestionKind) -> WorkloadError:
    """Return the error for a question with an attribute, of a kind that takes none."""
    return WorkloadError(
        "question-takes-no-attribute",
        f"A {question} question has an attribute.",
        "",
        "Remove the attribute."
        if question is QuestionKind.LEFT_OUT
        else "Remove the attribute, or state it as a condition.",
        "No question was made.",
        place="attribute",
    )


def exact_level(q: object) -> Fraction:
    """Return the share of a quantile; for a float, the nearest fraction up to `MAX_QUANTILE_DENOMINATOR`.

    Raises:
        WorkloadError: The share is not a float or a Fraction above 0 and below 1, or its denominator is too large.
    """
    # 0.9 as a float is a fraction with the denominator 2⁵³; steps of a rank would be that large.
    exact = Fraction(q).limit_denominator(MAX_QUANTILE_DENOMINATOR) if isinstance(q, float) and 0 < q < 1 else q
    if not isinstance(exact, Fraction) or not 0 < exact < 1 or exact.denominator > MAX_QUANTILE_DENOMINATOR:
        raise WorkloadError(
            "quantile-share-out-of-range",
            f"The share of a quantile is {reprlib.repr(q)}.",
            f"A share is a fraction above 0 and below 1 with a denominator of at most {MAX_QUANTILE_DENOMINATOR:,}.",
            "Give such a fraction, for example Fraction(9, 10).",
            "No question was made.",
            place="quantile",
        )
    return exact
