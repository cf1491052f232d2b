"""The tables that will be published, each with a name and a target.

A table has one *view* of each of its attributes, such as every value, "at most", ranges or groups. It publishes every
combination of them. A matrix workload publishes any linear queries about the cells of a domain.
"""

from __future__ import annotations

import abc
import copy
import hashlib
import inspect
import itertools
import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ParamSpec, Self, TypeVar, Unpack, final, get_type_hints, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fitnoise.algebra import operators as op
from fitnoise.algebra import rules
from fitnoise.display import HtmlDisplay
from fitnoise.errors import WorkloadError
from fitnoise.kernel.arrays import Indices
from fitnoise.kernel.checks import describe_value
from fitnoise.kernel.codings import EXACT_FLOAT_LIMIT, Code
from fitnoise.kernel.domain import JointAxis
from fitnoise.messages import Message, rule_messages
from fitnoise.request.arguments import checked
from fitnoise.request.attributes import Ordered
from fitnoise.request.domain import RESERVED, Domain
from fitnoise.request.joint_axes import axis_name, cells_along, has_all_values, joint_axis, used_joint_axes
from fitnoise.request.number_rules import ByAttribute, ByTableSize, PublicTotal
from fitnoise.request.targets import Target, TargetKind, checked_confidence
from fitnoise.request.views import EACH, VIEWS, Entry, Mean, View, ViewArguments, values_by_name

QUERY = "query"
"""The column that numbers the rows of a matrix workload."""

P = ParamSpec("P")
R = TypeVar("R")
_T = TypeVar("_T")

SLUG_BYTES = 120
"""Largest number of bytes of a table's file name without its ending: file systems take 143 to 255 with the ending."""

SLUG_DIGITS = 12
"""Hexadecimal digits of a SHA-256 that end a shortened file name."""

MAX_TABLES = 2**21
"""Largest number of tables of one pattern: planning takes some hundred bytes for each table and each of its margins."""

MIN_VARIANCE = 2.0**-1000
"""The smallest target variance of a number, in people²; the largest is its inverse."""

Targets = float | ByAttribute | ByTableSize | Sequence[float] | NDArray[Any]
"""A target of all tables of a pattern, or one number for each."""


def _weighted(queries: op.Operator, weights: Sequence[Fraction]) -> op.Operator:
    """Return queries that count each cell with its weight: rows of whole numbers, each row with a scale.

    Args:
        queries: The queries without weights, (rows, cells).
        weights: The weight of each cell, positive.

    Raises:
        WorkloadError: A whole number of a row reaches 2^53.
    """
    # The kernel measures whole numbers: the factors are multiples of the unit, without a common divisor.
    below = math.lcm(*(x.denominator for x in weights))
    above = math.gcd(*(int(x * below) for x in weights))
    unit, factors = Fraction(above, below), np.array([int(x * below) // above for x in weights], dtype=object)
    scales = np.full(queries.shape[0], float(unit))
    if isinstance(queries, op.Averages):
        # The rows of a mean are measured as sums. The width divides their scale.
        scales, queries = scales / queries.widths, queries.unscaled
    rows = rules.dense(queries).astype(object) * factors
    # Beyond 2^53 a double no longer holds every whole number.
    if np.abs(rows).max() >= EXACT_FLOAT_LIMIT:
        raise WorkloadError(
            "class-ranges-too-far-apart",
            "The ranges of an amount by class need whole numbers of 2^53 or more to be summed.",
            "The largest range must be below 2^53 times the greatest common divisor of all ranges.",
            "Choose ranges that are closer in size, or that have fewer decimal places.",
            "Nothing was planned.",
        )
    return op.Scaled(op.Dense(rows.astype(np.int64)), scales)


def _on_finer_axis(queries: op.Operator, cells: Indices) -> op.Operator:
    """Return queries along a finer axis.

    Args:
        queries: The queries along their own axis, (rows, cells).
        cells: The cell of their axis for each cell of the finer one.
    """
    if np.array_equal(cells, np.arange(queries.shape[1])):
        return queries
    return op.from_matrix(rules.dense(queries)[:, cells])


def _along_cuts(queries: op.Operator, cells: Indices, pieces: Sequence[int]) -> op.Operator:
    """Return queries along a joint axis of cuts and an amount, as whole numbers and weights.

    Args:
        queries: The queries along their own axis, (rows, cells).
        cells: The cell of their axis for each cell of the joint axis; for the amount, the step.
        pieces: The steps of the amount from each knot to the next; none for queries of the cuts.
    """
    integers, weights = _integers_and_weights(queries)
    if not pieces:
        return op.Scaled(op.Dense(integers[:, cells]), weights)
    passed, common = np.cumsum((0, *pieces)), math.lcm(*pieces)
    last, widths = int(passed[-1]), np.array(pieces, dtype=object)
    # A step counts at both adjacent knots, in parts. The cells of missing values follow the knots.
    upper = np.maximum(np.searchsorted(passed, np.minimum(cells, last)), 1)
    part = (cells - passed[upper - 1]).astype(object)
    exact = integers.astype(object)
    valued = exact[:, upper - 1] * (widths[upper - 1] - part) + exact[:, upper] * part
    valued = valued * (common // widths[upper - 1])
    missing = exact[:, np.where(cells > last, len(pieces) + cells - last, 0)] * common
    rows = np.where(cells > last, missing, valued)
    divisors = np.gcd.reduce(np.column_stack([rows, np.full(len(rows), common, dtype=object)]), axis=1)
    scaled = rows // divisors[:, None]
    return op.Scaled(op.Dense(scaled.astype(np.int64)), weights * (divisors / common).astype(np.float64))


def _integers_and_weights(queries: op.Operator) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return queries with whole numbers, (rows, cells), and the weight of each, (rows,)."""
    unscaled, weights = queries.split_weights()
    return rules.dense(unscaled).astype(np.int64), weights


@final
@dataclass(frozen=True)
class Table:
    """One table to publish. :func:`table` and :func:`matrix_workload` construct it.

    `attributes` are its columns in order. `views` holds the view of each attribute that is not shown value by value. A
    table of explicit queries about all cells of the domain has a `matrix` instead.
    """

    name: str
    attributes: tuple[str, ...]
    target: Target
    views: tuple[tuple[str, View], ...] = ()
    matrix: op.Dense | None = None

    @property
    def default_name(self) -> str:
        """The name of a table without a given name: its attributes, each with its view."""
        return " by ".join(_described(self, a) for a in self.attributes) or "total"

    def view(self, attribute: str) -> View:
        """Return the view of one of the table's attributes.

        Args:
            attribute: The name of the attribute; one that the table does not show has the view by value.
        """
        return dict(self.views).get(attribute, EACH)

    @property
    def summed(self) -> tuple[str, ...]:
        """The attributes whose sum, or the sum of whose product, it shows; none where it counts records."""
        return tuple(a for a, view in self.views if view.is_sum)

    @property
    def terms(self) -> tuple[str, ...]:
        """The summed attribute, or the factors of the summed product, as readers see them: min(x, t) with a ceiling."""
        tops = ((a, view.ceiling) for a, view in self.views if view.is_sum)
        return tuple(a if t is None else f"min({a}, {t})" for a, t in tops)

    @property
    def averaged(self) -> tuple[str, Mean] | None:
        """The amount whose mean the table publishes, and the view of this amount; None if it publishes no mean."""
        return next(((a, view) for a, view in self.views if isinstance(view, Mean)), None)

    @property
    def is_count(self) -> bool:
        """True if its numbers count records, so that no number is negative for any records."""
        return self.matrix is None and not any(view.is_sum or view.signed for _, view in self.views)

    @property
    def missing(self) -> bool:
        """True if it has rows for the missing values that its views would leave out."""
        return any(view.missing for _, view in self.views)

    def weights(self, domain: Domain) -> dict[str, tuple[Fraction, ...]]:
        """Return the weights of records by cell of each attribute that sets the range of a summed amount.

        A weight is the step of the amount in this cell; for several amounts, the product of their steps.

        Args:
            domain: The domain of the table.
        """
        by_attribute: dict[str, tuple[Fraction, ...]] = {}
        for amount in (domain[a] for a in self.summed if a in domain):
            if amount.range_attribute is not None:
                # A record of an amount holds a number of steps, and its class says how large a step is.
                class_steps = amount.class_steps
                factors = by_attribute.get(amount.range_attribute, (Fraction(1),) * len(class_steps))
                by_attribute[amount.range_attribute] = tuple(x * y for x, y in zip(class_steps, factors, strict=True))
        return by_attribute

    def left_out(self, domain: Domain) -> dict[str, tuple[int, ...]]:
        """Return, for each attribute, the positions of the cells that no number of the table counts.

        Cells for missing values are among them. Attributes without such cells have no entry. For a matrix, the
        dictionary is empty.

        Args:
            domain: The domain of the table.
        """
        excluded = {}
        for a, view in self.views:
            missing = () if view.missing else view.left_out(domain[a])
            if cells := (*view.unshown(domain[a]), *missing):
                excluded[a] = cells
        return excluded

    def coded(self, domain: Domain) -> dict[str, tuple[Message, ...]]:
        """Return how values that are not in the cells are read, for each attribute that has such a rule.

        Args:
            domain: The domain of the table.
        """
        names = domain if self.matrix is not None else self.attributes
        return {a: rule_messages(rules) for a in names if (rules := self.view(a).coding_rules(domain[a]))}

    def labels(self, domain: Domain) -> dict[str, tuple[str | int, ...]]:
        """Return the row labels for each column of the released table.

        Args:
            domain: The domain of the table.

        Returns:
            The labels by column, in the table's order; for a matrix, the numbers of its queries from 0.
        """
        if self.matrix is not None:
            return {QUERY: tuple(range(self.matrix.shape[0]))}
        return {a: self.view(a).labels(domain[a]) for a in self.attributes}

    def row_names(self, domain: Domain) -> dict[str, tuple[Code, ...]]:
        """Return the names that distinguish the rows: the labels, or the codes of an attribute with repeated labels.

        Args:
            domain: The domain of the table.

        Returns:
            The names by column, as `labels`.
        """
        if self.matrix is not None:
            return dict(self.labels(domain))
        return {a: self.view(a).row_names(domain[a]) for a in self.attributes}

    def stubs(self, domain: Domain) -> tuple[dict[str, tuple[Code | float, ...]], ...]:
        """Return the columns of the released table that say what its rows are.

        Args:
            domain: The domain of the table.

        Returns:
            For each key of `labels` its columns: the labels under this key, then codes or the ends of bins.
        """
        if self.matrix is not None:
            return (dict(self.labels(domain)),)
        return tuple(self.view(a).stub(a, domain[a]) for a in self.attributes)

    def shape(self, domain: Domain) -> tuple[int, ...]:
        """Return the number of rows along each column of the released table.

        Args:
            domain: The domain of the table.
        """
        if self.matrix is not None:
            return (self.matrix.shape[0],)
        return tuple(self.view(a).rows(domain[a]) for a in self.attributes)

    def targets(self, domain: Domain) -> NDArray[np.float64]:
        """Return the numbers of the target as the user gave them, broadcast to the table's shape.

        Args:
            domain: The domain of the table.

        Raises:
            WorkloadError: A target by value names an attribute that the table does not show, or lacks a value.
        """
        shape = self.shape(domain)
        number = self.target.number
        if isinstance(number, ByTableSize):
            return np.broadcast_to(number.evaluate(math.prod(shape)), shape)
        if not isinstance(number, ByAttribute):
            return np.broadcast_to(np.float64(number), shape)
        labels = self.row_names(domain)
        if number.attribute not in labels:
            raise WorkloadError(
                "target-attribute-not-shown",
                f"The table {self.name!r} has a target by {number.attribute!r}, and does not show it.",
                f"Its columns are {list(labels)}.",
                "Show the attribute, or give a target by one of these.",
                "Nothing was planned.",
                place=number.attribute,
            )
        axis = list(labels).index(number.attribute)
        numbers = np.array(number.for_labels(labels[number.attribute]), dtype=np.float64)
        return np.broadcast_to(numbers.reshape([-1 if i == axis else 1 for i in range(len(shape))]), shape)

    def variances(self, domain: Domain, confidence: float) -> NDArray[np.float64]:
        """Return the target variance of each number, in people² or squared units of a sum, in the table's shape.

        For a mean, it is that of the counts at the ends of the amount.

        Args:
            domain: The domain of the table.
            confidence: The confidence level of margins that have none of their own, between 0 and 1.
        """
        shape = self.shape(domain)
        # Equal targets of a large table are converted once: `_varying` keeps one entry of each repeated axis.
        required = self.target.variance(_varying(self.targets(domain)), confidence, math.prod(shape))
        # A mean is measured as counts at the ends: its target becomes one of these counts, in people.
        return np.broadcast_to(required * self.scale(domain) ** 2, shape)

    def scale(self, domain: Domain) -> float:
        """Return the factor from a target to that of the queries: n/(high − low) for a mean of n records, otherwise 1.

        Args:
            domain: The domain of the table.
        """
        return math.prod(view.scale(domain[a]) for a, view in self.views)

    def refuse_unknown_views(self) -> None:
        """Raise WorkloadError for a view that no document can say: a reader of the plan would see another table.

        Raises:
            WorkloadError: A view is of a class that is not in `VIEWS`, such as a subclass of one of them. Or it belongs
                to an attribute that the table does not show, or that has another view. Or a matrix has attributes.
        """
        for i, (a, view) in enumerate(self.views):
            # A subclass could publish other queries than the key of its parent says in the document.
            if type(view) not in VIEWS.values():
                raise WorkloadError(
                    "view-class-unknown",
                    f"The table {self.name!r} shows {a!r} through {type(view).__name__}, a view that no plan file can "
                    "hold.",
                    "",
                    f"Build the table with fitnoise.table, from its views: {', '.join(VIEWS)}.",
                    "Nothing was planned.",
                    place=a,
                )
            if a not in self.attributes or a in dict(self.views[:i]):
                raise WorkloadError(
                    "view-misplaced",
                    f"The table {self.name!r} has a view for {a!r}, which it does not show or shows through two views.",
                    "",
                    "Give each attribute of the table at most one view.",
                    "Nothing was planned.",
                    place=a,
                )
        if self.matrix is not None and self.attributes:
            raise WorkloadError(
                "matrix-with-attributes",
                f"The table {self.name!r} has a matrix and the attributes {list(self.attributes)}.",
                "A plan file holds one of the two.",
                "Leave the attributes out.",
                "Nothing was planned.",
                place="matrix",
            )

    def check(self, domain: Domain) -> None:
        """Raise WorkloadError or DomainError if the table does not fit this domain.

        Args:
            domain: The domain of the table.

        Raises:
            WorkloadError, DomainError: The table does not fit. The error names the attribute or key at fault.
        """
        self.refuse_unknown_views()
        if self.matrix is not None:
            if domain.steps:
                raise WorkloadError(
                    "matrix-with-amounts",
                    f"The table has a matrix, and the domain has the amounts {list(domain.steps)}.",
                    "A matrix is about cells, and a record lies between the cells of an amount.",
                    "Use tables with sum or mean for the amounts.",
                    "Nothing was planned.",
                    place="matrix",
                )
            if self.matrix.shape[1] != domain.size:
                raise WorkloadError(
                    "matrix-width-wrong",
                    f"The matrix has {self.matrix.shape[1]} columns, and the domain has {domain.size} cells.",
                    "",
                    "Give one column for each cell.",
                    "Nothing was planned.",
                    place="matrix",
                )
            zero = np.flatnonzero(~self.matrix.matrix.any(axis=1))
            if zero.size:
                raise WorkloadError(
                    "query-all-zero",
                    f"Query {zero[0] + 1} of the matrix is zero in every cell.",
                    "Its answer is always 0, without error.",
                    "Leave the query out.",
                    "Nothing was planned.",
                    place="matrix",
                )
        for a in self.attributes:
            # To build the queries is the check: each view refuses attributes that it cannot show.
            self.view(a).operator(domain[a])
        if self.missing and not any(view.left_out(domain[a]) for a, view in self.views):
            raise WorkloadError(
                "missing-without-cells",
                f"The table {self.name!r} has missing = true, and its cumulative counts, ranges and groups leave out "
                "no cell for missing values.",
                "",
                "Leave missing out, or declare such cells (missing = … of the attribute).",
                "Nothing was planned.",
                place="missing",
            )
        _refuse_two_levels(domain, self.attributes)
        self.targets(domain)

    def query_matrix(self, domain: Domain, axis: str, attributes: Sequence[str] = ()) -> op.Operator:
        """Return the table's queries along one axis, (rows, cells of the axis).

        If the axis sets the range of a summed amount, each cell counts with the step of the amount there.

        Args:
            domain: The domain of the table.
            axis: The attribute, the level or the joint axis whose cells the queries count.
            attributes: The attributes or levels that the table shows along the axis. It is one, not deeper than the
                axis, or several of a joint axis. The rows are in C order of theirs. Without one, the one query counts
                all cells.
        """
        queries = op.Total(domain.sizes[axis]) if not attributes else self._operator(domain, attributes[0], axis)
        for further in (self._operator(domain, a, axis) for a in attributes[1:]):
            # A cell counts in the rows of all its attributes.
            if axis in domain.steps:
                (x, here), (y, there) = _integers_and_weights(queries), _integers_and_weights(further)
                products = op.Dense((x[:, None] * y[None]).reshape(-1, queries.shape[1]))
                queries = op.Scaled(products, np.kron(here, there))
            else:
                both = rules.dense(queries)[:, None] * rules.dense(further)[None]
                queries = op.Dense(both.reshape(-1, queries.shape[1]))
        weights = self.weights(domain).get(axis)
        return queries if weights is None else _weighted(queries, weights)

    def _operator(self, domain: Domain, attribute: str, axis: str) -> op.Operator:
        queries = self.view(attribute).operator(domain[attribute])
        joint = joint_axis(domain, axis)
        if joint is not None:
            cells = cells_along(domain, joint, attribute)
            if axis in domain.steps:
                return _along_cuts(queries, cells, domain.steps.get(attribute, ()))
            return _on_finer_axis(queries, cells)
        hierarchy = domain[domain.attribute_of(axis)]
        if hierarchy.tree is None or domain.depth(attribute) == domain.depth(axis):
            return queries
        above = hierarchy.tree.above(domain.depth(attribute), domain.depth(axis))
        # The places below one place are consecutive, so each change of `above` starts the next place.
        below = np.split(np.arange(len(above)), np.flatnonzero(np.diff(above)) + 1)
        places = queries.groups if isinstance(queries, op.Groups) else tuple((i,) for i in range(len(below)))
        groups = (tuple(np.concatenate([below[i] for i in group]).tolist()) for group in places)
        return op.Groups(len(above), tuple(groups))


class LazySequence(Sequence[_T]):
    """A sequence that creates each item when it is read."""

    @abc.abstractmethod
    def _build(self, i: int) -> _T:
        """Return the item at a position, counted from 0."""

    @overload
    def __getitem__(self, index: int) -> _T: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[_T]: ...
    def __getitem__(self, index: int | slice) -> _T | Sequence[_T]:
        places = range(len(self))[index]
        return self._build(places) if isinstance(places, int) else [self._build(i) for i in places]


def _refuse_two_levels(domain: Domain, attributes: Sequence[str]) -> None:
    """Raise WorkloadError where two of a table's attributes are levels of one hierarchy."""
    level_of: dict[str, str] = {}
    for a in attributes:
        other = level_of.setdefault(domain.attribute_of(a), a)
        if other != a:
            deeper = max(a, other, key=domain.depth)
            raise WorkloadError(
                "two-levels",
                f"The table shows {other!r} and {a!r}, two levels of {domain.attribute_of(a)!r}.",
                "A table shows one level of a hierarchy.",
                f"Show only {deeper!r}, which determines the other.",
                "Nothing was planned.",
                place=a,
            )


def slug(name: str) -> str:
    """Return a table's file name without its ending: lower-case letters of any script, digits and underscores.

    **Guarantees**
        * A file name has at most :data:`SLUG_BYTES` bytes of UTF-8: a longer one ends in digits of its SHA-256.
    """
    return _fitting(_underscored(name))


def _fitting(text: str) -> str:
    """Return a file name that every file system takes: the text without outer underscores, shortened if need be."""
    text = text.strip("_") or "table"
    # The first test is the fast one, for patterns of many thousand tables.
    if len(text) <= SLUG_BYTES // 4 or len(text.encode()) <= SLUG_BYTES:  # a letter has at most 4 bytes
        return text
    digest = hashlib.sha256(text.encode()).hexdigest()[:SLUG_DIGITS]
    # The cut may fall within a letter, whose bytes are then ignored.
    return f"{text.encode()[: SLUG_BYTES - SLUG_DIGITS - 1].decode(errors='ignore').rstrip('_')}_{digest}"


def _underscored(text: str) -> str:
    return re.sub(r"[\W_]+", "_", text.lower())


def _with_views(function: Callable[P, R]) -> Callable[P, R]:
    """Name each view in the signature and the docstring of a function, in place of its last argument, **views."""
    signature, hints = inspect.signature(function), get_type_hints(ViewArguments)
    *others, _ = signature.parameters.values()
    keyword = inspect.Parameter.KEYWORD_ONLY
    views = [inspect.Parameter(key, keyword, default=None, annotation=hint) for key, hint in hints.items()]
    # The sort is stable: views come first among the keywords, and the rest keep their order.
    parameters = sorted([*others, *views], key=lambda x: (x.kind, x.name not in VIEWS))
    function.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    function.__annotations__ |= hints
    if function.__doc__ is not None:  # Python drops docstrings with -OO
        entries = "".join(f"        {key}: {view.description}\n" for key, view in VIEWS.items())
        function.__doc__ = re.sub(r" {8}views: [^\n]*\n", lambda _: entries, function.__doc__)
    return function


@checked(WorkloadError, "Nothing was planned.", *VIEWS, "name", "missing")
@_with_views
def table(
    *attributes: str,
    ceiling: float | None = None,
    margin: float | ByAttribute | ByTableSize | None = None,
    std_error: float | ByAttribute | ByTableSize | None = None,
    variance: float | ByAttribute | ByTableSize | None = None,
    max_deviation: float | ByAttribute | ByTableSize | None = None,
    relative_std_error: float | ByAttribute | ByTableSize | None = None,
    reference: float | PublicTotal | None = None,
    confidence: float | None = None,
    name: str | None = None,
    missing: bool = False,
    **views: Unpack[ViewArguments],
) -> Table:
    """Return a table to publish: one number for every combination of its attributes' values.

    Args:
        attributes: The names of attributes of the domain, shown value by value; no name means the grand total. A name
            that a view has, too, gives only the place of the column.
        ceiling: The limit t up to which the one summed amount counts, Σ min(x, t): one of the `ceilings` that it
            declares. Default: the end of its range.
        margin: The half-width of the interval at `confidence`, in people; targets of a sum or a mean are in its own
            units. Or exactly one of the following:
        std_error: The standard error, in people.
        variance: The variance, in people².
        max_deviation: A bound on the error of *all* numbers of the table at once, at `confidence`, in people.
        relative_std_error: The relative standard error (0.05 is 5 %) at the count given as `reference`.
        reference: The public count to which a `relative_std_error` or the target of a `mean` refers. For a relative
            error it can be a :class:`PublicTotal` spread over the table.
        confidence: The confidence level of this table, in place of the workload's.
        name: The name of the table; default: the attributes joined by "by". Tables of one workload that group equal
            attributes in other ways are numbered from the second on.
        missing: True if cells for missing values that cumulative counts, ranges or groups leave out have rows of their
            own.
        views: The attributes shown through other views, by the key of each view.

    Raises:
        WorkloadError: The table has no target or several, an attribute twice, or a target that is not a positive finite
            number. Or arguments do not fit together, such as `sum` and `mean`, or the confidence is not between
            0 and 1.

    Example:
        `table("status", cumulative="age", margin=30)` publishes, for each status, every "age at most a" to ±30.
    """
    stated = [
        (key, a, view_class.parse(Entry(a, value, missing, ceiling, reference)))
        for key, view_class in VIEWS.items()
        for a, value in values_by_name(views.get(key))
    ]
    keys, names = [key for key, _, _ in stated], [a for _, a, _ in stated]
    if missing and not any(view.missing for _, _, view in stated):
        raise WorkloadError(
            "missing-without-views",
            "The table has missing = true, and no cumulative counts, ranges or groups.",
            "Only these can have rows for the cells of missing values that they leave out.",
            "Leave missing out.",
            "Nothing was planned.",
            place="missing",
        )
    if ceiling is not None and keys.count("sum") != 1:
        raise WorkloadError(
            "ceiling-needs-one-sum",
            f"The table has a ceiling and sum = {[a for key, a, _ in stated if key == 'sum']}.",
            "A ceiling is of the sum of one amount: means and products use the complete range.",
            "Declare an amount of that range on the same column for them.",
            "Nothing was planned.",
            place="ceiling",
        )
    if "mean" in keys and "sum" in keys:
        raise WorkloadError(
            "sum-and-mean",
            "The table has sum and mean.",
            "",
            "Publish two tables.",
            "Nothing was planned.",
            place="mean",
        )
    if "mean" in keys and "change" in keys:
        raise WorkloadError(
            "change-of-mean",
            "The table has change and mean.",
            "A change of a mean does not follow from the changes of its records.",
            "Publish the mean by value; compute changes from the release (Release.mean(…, month=2) - "
            "Release.mean(…, month=1)).",
            "Nothing was planned.",
            place="change",
        )
    # The parser of keys is used here, too, so that both refuse a name that is no text in the same words.
    by_value = tuple(a for a, _ in values_by_name(attributes))
    # A document lists all columns as attributes, those with a view included: this keeps their order.
    # A second view of one attribute stays in the list, so that the next lines refuse it.
    columns = by_value + tuple(a for i, a in enumerate(names) if a not in attributes or a in names[:i])
    if len(set(columns)) != len(columns):
        twice = next(a for i, a in enumerate(columns) if a in columns[:i])
        raise WorkloadError(
            "attribute-twice",
            f"The attribute {twice!r} appears twice in one table.",
            "",
            "Name each attribute once, or publish two tables.",
            "Nothing was planned.",
            place=twice,
        )
    numbers = {
        kind: number
        for kind, number in zip(
            TargetKind, (margin, std_error, variance, max_deviation, relative_std_error), strict=True
        )
        if number is not None
    }
    if len(numbers) != 1:
        kinds = " and ".join(k.value for k in numbers) or "none"
        raise WorkloadError(
            "not-one-target",
            f"The table has {kinds} of the targets {', '.join(k.value for k in TargetKind)}.",
            "A table needs exactly one target.",
            "Give one; if several must hold, give the strictest.",
            "Nothing was planned.",
        )
    ((kind, number),) = numbers.items()
    # The view of a mean holds the reference: a margin or variance with a reference is refused.
    target = Target(kind, number, confidence, None if "mean" in keys else reference)
    new_table = Table(name or "", columns, target, tuple((a, view) for _, a, view in stated))
    return replace(new_table, name=new_table.default_name) if name is None else new_table


@final
@dataclass(frozen=True)
class Family(LazySequence[Table]):
    """All tables that show `order` of some attributes: "all pairs of…". :func:`all_tables` constructs it.

    The tables are a sequence backed by arrays, so 161,700 tables take no more code than one.

    Args:
        template: The further attributes of every table, and the target. Its name, if given, precedes that of each
            table.
        pattern_attributes: The attributes of which every combination of `order` is shown, value by value.
        order: The number of these attributes in each table, from 1 to their number.
        numbers: The targets of the tables, one each in the order of the combinations; None: the template's target for
            all.

    Raises:
        WorkloadError: The order is out of range, there is no attribute or one twice, or the numbers are not one
            target for each table. Or there are more than 2²¹ tables, a matrix, or a target by an attribute outside the
            template.
    """

    template: Table
    pattern_attributes: tuple[str, ...]
    order: int
    numbers: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "pattern_attributes", tuple(self.pattern_attributes))
        if self.template.matrix is not None:
            raise WorkloadError(
                "matrix-in-pattern",
                "A pattern of tables has a matrix.",
                "A matrix is about all cells.",
                "Give the matrix a table of its own.",
                "Nothing was planned.",
                place="matrix",
            )
        if not self.pattern_attributes:
            raise WorkloadError(
                "pattern-without-attributes",
                "A pattern of tables has no attributes to choose from.",
                "",
                "Name at least one attribute.",
                "Nothing was planned.",
                place="pattern_attributes",
            )
        attributes = [*self.pattern_attributes, *self.template.attributes]
        if len(set(attributes)) != len(attributes):
            twice = next(a for i, a in enumerate(attributes) if a in attributes[:i])
            raise WorkloadError(
                "pattern-attribute-twice",
                f"The attribute {twice!r} appears twice in a pattern of tables.",
                "",
                "Name each attribute once.",
                "Nothing was planned.",
                place="pattern_attributes",
            )
        if (
            # True is an int in Python, and would mean 1.
            isinstance(self.order, bool)
            or not isinstance(self.order, int)
            or not 1 <= self.order <= len(self.pattern_attributes)
        ):
            raise WorkloadError(
                "pattern-order-out-of-range",
                f"The pattern shows {self.order!r} of its {len(self.pattern_attributes)} attributes in each table.",
                f"It must show from 1 to {len(self.pattern_attributes)} of them.",
                "Give such a whole number.",
                "Nothing was planned.",
                place="pattern",
            )
        if len(self) > MAX_TABLES:
            raise WorkloadError(
                "too-many-tables",
                f"The pattern has {len(self):,} tables: each shows {self.order} of {len(self.pattern_attributes)} "
                f"attributes.",
                f"At most {MAX_TABLES:,} tables can be planned together.",
                "Name fewer attributes, or show almost none or almost all of them in each table.",
                "Nothing was planned.",
                place="pattern",
            )
        by_attribute = self.template.target.attribute
        if by_attribute is not None and by_attribute not in self.template.attributes:
            raise WorkloadError(
                "pattern-target-attribute",
                f"The pattern has a target by {by_attribute!r}, which some of its tables do not show.",
                "",
                "Name this attribute among those that every table of the pattern shows.",
                "Nothing was planned.",
                place=by_attribute,
            )
        if self.numbers is not None:
            if len(self.numbers) != len(self):
                raise WorkloadError(
                    "pattern-targets-misfit",
                    f"The pattern has {len(self):,} tables and {len(self.numbers):,} targets.",
                    "",
                    "Give one target for each table, or one for all.",
                    "Nothing was planned.",
                )
            # The template's own number is not used. With a number of the list, equal patterns compare as equal.
            numbers, target = _each_number(self.numbers, self.template.target), self.template.target
            object.__setattr__(self, "numbers", numbers)
            object.__setattr__(self, "template", replace(self.template, target=replace(target, number=numbers[0])))

    def __len__(self) -> int:
        return math.comb(len(self.pattern_attributes), self.order)

    def coded(self, domain: Domain) -> dict[str, tuple[Message, ...]]:
        """Return how values that are not in the cells are read, for each attribute of the tables that has such a rule.

        Args:
            domain: The domain of the tables.
        """
        # The attributes of the pattern are shown by value, so no view changes their rules.
        among = {a: rule_messages(rules) for a in self.pattern_attributes if (rules := domain[a].coding_rules)}
        return among | self.template.coded(domain)

    def _build(self, i: int) -> Table:
        attributes = tuple(self.pattern_attributes[a] for a in self.combinations[i])
        t = self.template
        target = t.target if self.numbers is None else replace(t.target, number=self.numbers[i])
        return Table(self._member_name(attributes), attributes + t.attributes, target, t.views)

    @cached_property
    def combinations(self) -> NDArray[np.intp]:
        """Positions in `pattern_attributes` of the attributes of each of T tables, (T, order), increasing in a row."""
        # Straight into an array: a list of all combinations would take many times the memory.
        flat = itertools.chain.from_iterable(itertools.combinations(range(len(self.pattern_attributes)), self.order))
        return np.fromiter(flat, dtype=np.intp, count=len(self) * self.order).reshape(-1, self.order)

    @property
    def _around(self) -> tuple[str, str]:
        """The text before the pattern's attributes in the name of each table, and the text after them."""
        t = self.template
        return f"{t.name}: " if t.name else "", "".join(f" by {_described(t, a)}" for a in t.attributes)

    def _member_name(self, attributes: Iterable[str]) -> str:
        head, tail = self._around
        return f"{head}{' by '.join(attributes)}{tail}"

    def describe(self) -> str:
        """Return the pattern in words."""
        head, tail = self._around
        counted = {1: "each", 2: "all pairs", 3: "all triples"}.get(self.order, f"all sets of {self.order}")
        return f"{head}{counted} of {len(self.pattern_attributes)} attributes{tail}"

    def names(self) -> list[str]:
        """Return the names of all tables."""
        head, tail = self._around
        combinations = np.array(self.pattern_attributes, dtype=object)[self.combinations].tolist()
        return [f"{head}{' by '.join(w)}{tail}" for w in combinations]

    def slugs(self) -> list[str]:
        """Return the names of all tables' files, without their endings, as :func:`slug` makes them."""
        parts = [_underscored(a).strip("_") for a in self.pattern_attributes]
        head, tail = self._around
        # A name without letters and digits leaves nothing between two underscores. Only `slug` merges these.
        if not all(re.search(r"[^\W_]", a) for a in self.pattern_attributes):
            return [slug(name) for name in self.names()]
        # Each attribute is rewritten once here, and not once for each table that shows it.
        before, after = _underscored(head), _underscored(tail)
        combinations = np.array(parts, dtype=object)[self.combinations].tolist()
        return [_fitting(f"{before}{'_by_'.join(w)}{after}") for w in combinations]

    def cells(self, domain: Domain) -> NDArray[np.float64]:
        """Return the number of published numbers of each of the T tables, (T,).

        Args:
            domain: The domain of the tables.
        """
        # In floats: the product of several sizes can exceed 64-bit integers.
        sizes = np.array([domain[a].size for a in self.pattern_attributes], dtype=np.float64)
        return np.asarray(sizes[self.combinations].prod(axis=1) * math.prod(self.template.shape(domain)))

    def targets(self, domain: Domain) -> NDArray[np.float64]:
        """Return the target numbers as given, broadcast to (T tables, rows along each attribute of the template …).

        All numbers of a table that differ only in the pattern's attributes share one entry; see :meth:`Table.targets`.

        Args:
            domain: The domain of the tables.
        """
        number = self.template.target.number
        shape = self.template.shape(domain)
        if self.numbers is not None:
            each = np.array(self.numbers, dtype=np.float64)
        elif isinstance(number, ByTableSize):
            each = number.evaluate(self.cells(domain))
        else:
            return np.broadcast_to(self.template.targets(domain), (len(self), *shape))
        return np.broadcast_to(each.reshape(-1, *(1,) * len(shape)), (len(self), *shape))

    def variances(self, domain: Domain, confidence: float) -> NDArray[np.float64]:
        """Return the target variance of each number as :meth:`Table.variances` does, in the shape of `targets`.

        Args:
            domain: The domain of the tables.
            confidence: The confidence level of margins that have none of their own, between 0 and 1.
        """
        numbers = self.targets(domain)
        cells = self.cells(domain).reshape(-1, *(1,) * (numbers.ndim - 1))
        required = (
            self.template.target.variance(_varying(numbers), confidence, cells) * self.template.scale(domain) ** 2
        )
        return np.broadcast_to(required, numbers.shape)

    def check(self, domain: Domain) -> None:
        """Raise WorkloadError or DomainError if the tables do not fit this domain.

        Args:
            domain: The domain of the tables.

        Raises:
            WorkloadError, DomainError: A table does not fit. The error names the attribute or key at fault.
        """
        self.template.refuse_unknown_views()
        for a in self.pattern_attributes:
            EACH.operator(domain[a])
        # Without further attributes the template has no view and no target by value that could misfit.
        if self.template.attributes:
            self.template.check(domain)
        for a in self.pattern_attributes:
            _refuse_two_levels(domain, (a, *self.template.attributes))
        # A table of one attribute never shows two levels, so these may belong to one hierarchy.
        if self.order > 1:
            _refuse_two_levels(domain, self.pattern_attributes)


def _each_number(numbers: Iterable[Any], target: Target) -> tuple[float, ...]:
    """Return the targets of several tables as floats. Raise WorkloadError for the first that is not a target."""
    values = tuple(numbers)
    # One vectorised check for the many floats of a large pattern; all else is checked one by one.
    are_valid = all(type(x) is float for x in values) and bool(
        np.isfinite(values).all() and (np.array(values) > 0).all()
    )
    for x in () if are_valid else values:
        if isinstance(x, (ByAttribute, ByTableSize)):
            raise WorkloadError(
                "pattern-target-not-a-number",
                f"A list of targets of a pattern contains {x!r}.",
                "",
                "Give one number for each table.",
                "Nothing was planned.",
            )
        # The constructor of the target refuses a number that is not positive and finite.
        replace(target, number=x)
    return tuple(float(x) for x in values)


def _varying(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the array with length 1 along each axis of stride 0, where its entries repeat."""
    # Broadcast axes have stride 0: millions of equal numbers are checked as one.
    return x[tuple(slice(None) if stride else slice(0, 1) for stride in x.strides)]


def _described(t: Table, attribute: str) -> str:
    return f"{attribute} {t.view(attribute).name_suffix}".rstrip()


@checked(WorkloadError, "Nothing was planned.", *VIEWS, "name", "missing")
@_with_views
def all_tables(
    order: int,
    pattern_attributes: Iterable[str],
    *attributes: str,
    ceiling: float | None = None,
    margin: Targets | None = None,
    std_error: Targets | None = None,
    variance: Targets | None = None,
    max_deviation: Targets | None = None,
    relative_std_error: Targets | None = None,
    reference: float | PublicTotal | None = None,
    confidence: float | None = None,
    name: str | None = None,
    missing: bool = False,
    **views: Unpack[ViewArguments],
) -> Family:
    """Return all tables that show `order` of some attributes: `all_tables(2, names, margin=30)` is every pair.

    Args:
        order: The number of attributes of `pattern_attributes` that each table shows, value by value.
        pattern_attributes: The names of attributes.
        attributes: The further attributes that every table shows, value by value.
        ceiling: The limit up to which each value counts; see :func:`table`.
        margin: Exactly one of this and the next four is given; see :func:`table`. A sequence has one number for each
            table, in the order in which :func:`itertools.combinations` goes through `pattern_attributes`.
        std_error: One number as for :func:`table`, or one for each table.
        variance: One number as for :func:`table`, or one for each table.
        max_deviation: One number as for :func:`table`, or one for each table.
        relative_std_error: One number as for :func:`table`, or one for each table.
        reference: The public count to which the target refers; see :func:`table`.
        confidence: The confidence level of the tables; see :func:`table`.
        name: The text put before the name of each table.
        missing: True for rows of missing values; see :func:`table`.
        views: The further attributes shown through other views; see :func:`table`.

    Returns:
        The tables, which :class:`Workload` takes together with others.

    Raises:
        WorkloadError: An argument is refused by :func:`table` or :class:`Family`.
    """
    if isinstance(pattern_attributes, str) or not isinstance(pattern_attributes, Iterable):
        what = "the text " if isinstance(pattern_attributes, str) else ""
        raise WorkloadError(
            "pattern-names-not-listed",
            f"The attributes of a pattern are given as {what}{describe_value(pattern_attributes)}.",
            "",
            "Give a list of names of attributes.",
            "Nothing was planned.",
            place="pattern_attributes",
        )
    numbers = None
    target_numbers: dict[str, Any] = {}
    for kind, number in zip(TargetKind, (margin, std_error, variance, max_deviation, relative_std_error), strict=True):
        target_numbers[kind.value] = number
        if isinstance(number, (list, tuple, range, np.ndarray)):
            numbers = tuple(np.atleast_1d(number).tolist() if isinstance(number, np.ndarray) else number)
            # Any valid number: the constructor of the pattern replaces it by the first of the list.
            target_numbers[kind.value] = 1.0
    template = table(
        *attributes,
        ceiling=ceiling,
        **target_numbers,
        reference=reference,
        confidence=confidence,
        name=name or "",
        missing=missing,
        **views,
    )
    return Family(template, tuple(pattern_attributes), order, numbers)


@final
class TableSequence(LazySequence[Table]):
    """The tables of a workload, in order: single ones and families, each in its place."""

    def __init__(self, parts: Iterable[Table | Family]) -> None:
        self.parts = tuple(parts)
        self.starts = np.cumsum([0, *(len(p) if isinstance(p, Family) else 1 for p in self.parts)])

    def __len__(self) -> int:
        return int(self.starts[-1])

    def _build(self, i: int) -> Table:
        # A pattern can have 2^21 tables: a search among the parts finds one without making the others.
        part_index = int(np.searchsorted(self.starts, i, side="right")) - 1
        part = self.parts[part_index]
        return part if isinstance(part, Table) else part[i - int(self.starts[part_index])]

    def __iter__(self) -> Iterator[Table]:
        return itertools.chain.from_iterable([p] if isinstance(p, Table) else p for p in self.parts)

    def __eq__(self, other: object) -> bool:
        return self.parts == other.parts if isinstance(other, TableSequence) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.parts)

    def __repr__(self) -> str:
        return f"TableSequence({list(self.parts)!r})"

    @cached_property
    def names(self) -> list[str]:
        """The names of all tables."""
        return list(itertools.chain.from_iterable([p.name] if isinstance(p, Table) else p.names() for p in self.parts))

    @cached_property
    def numbered(self) -> dict[str, int]:
        """The position of each table, counted from 0, by name."""
        return {name: i for i, name in enumerate(self.names)}

    def slugs(self) -> list[str]:
        """Return the names of all tables' files, without their endings."""
        return list(
            itertools.chain.from_iterable([slug(p.name)] if isinstance(p, Table) else p.slugs() for p in self.parts)
        )


@final
@dataclass(frozen=True)
class Workload(HtmlDisplay):
    """The tables to publish over a domain.

    Args:
        domain: The attributes.
        tables: Tables, or patterns of them (:func:`all_tables`), with names whose :func:`slug` differs. A publication
            that only asks questions has none. Of tables with equal default names and different views, the second and
            later ones get a number in their names.
        confidence: The confidence level of every margin that has none of its own, and of the margins printed with the
            results, between 0 and 1.

    Raises:
        WorkloadError, DomainError: A name is empty, two tables would have one file name, or a table does not fit this
            domain. Or a target variance is too small or too large for double precision. Or the confidence is not
            strictly between 0 and 1, or an argument has another class.
    """

    domain: Domain
    tables: TableSequence
    confidence: float = 0.95

    def __init__(self, domain: Domain, tables: Iterable[Table | Family], confidence: float = 0.95) -> None:
        # A single table is taken as a list of one: iterating over a pattern would list its members instead.
        if isinstance(tables, (Table, Family)):
            tables = (tables,)
        if not isinstance(tables, Iterable):
            raise _not_a_table(describe_value(tables))
        items = _with_distinct_names(TableSequence(tables.parts if isinstance(tables, TableSequence) else tables))
        if not isinstance(domain, Domain):
            raise WorkloadError(
                "not-a-domain",
                f"The domain of the workload has the type {type(domain).__name__}.",
                "",
                "Give a Domain.",
                "Nothing was planned.",
            )
        for t in items.parts:
            # A subclass could publish other tables than its document states, so that no reader could check the plan.
            if type(t) not in (Table, Family):
                raise _not_a_table(repr(t))
            name = t.name if isinstance(t, Table) else t.template.name or "-"
            if not name.strip():
                raise WorkloadError(
                    "table-name-empty",
                    "The name of a table is empty.",
                    "",
                    "Give the table a name, or leave the name out.",
                    "Nothing was planned.",
                    place="name",
                )
            t.check(domain)
            # After `check`, which names the key at fault: the variances assume that the table fits.
            variances = _varying(t.variances(domain, checked_confidence(confidence)))
            # A value of NaN fails both comparisons, and is refused as well.
            if not ((variances >= MIN_VARIANCE) & (variances <= 1 / MIN_VARIANCE)).all():
                which = f"table {t.name!r}" if isinstance(t, Table) else t.describe()
                raise WorkloadError(
                    "target-out-of-range",
                    f"A target of {which} is too small or too large for double precision.",
                    "",
                    f"Give a target with a variance from {MIN_VARIANCE:g} to {1 / MIN_VARIANCE:g}.",
                    "Nothing was planned.",
                )
        # Different names can have one file name, as "A b" and "a_b" do, and the second table would replace the first.
        files = items.slugs()
        if len(set(files)) != len(files):
            _refuse_twins(items, files)
        object.__setattr__(self, "domain", domain)
        object.__setattr__(self, "tables", items)
        object.__setattr__(self, "confidence", checked_confidence(confidence))

    def __getitem__(self, name: str) -> Table:
        return self.tables[self.number(name)]

    def with_joint_axes(self, joint: Iterable[JointAxis]) -> Self:
        """Return these tables over their domain with joint axes (:meth:`Domain.with_joint_axes`).

        Args:
            joint: The joint axes of a plan.

        Raises:
            DomainError: A joint axis does not fit the attributes.
        """
        # The attributes stay as they are, so the tables fit.
        workload = copy.copy(self)
        object.__setattr__(workload, "domain", self.domain.with_joint_axes(joint))
        return workload

    def number(self, name: str) -> int:
        """Return the position of a table, counted from 0.

        Args:
            name: The name of the table, as in `tables.names`.

        Raises:
            WorkloadError: The workload has no table of this name.
        """
        if name not in self.tables.numbered:
            raise WorkloadError(
                "table-unknown",
                f"There is no table {name!r}.",
                f"The workload has {list_names(self.tables.names)}.",
                "Name one of its tables.",
                "Nothing was computed.",
            )
        return self.tables.numbered[name]


def _not_a_table(value: str) -> WorkloadError:
    """Return the error for an object that is not a table of a workload."""
    return WorkloadError(
        "not-a-table",
        f"A workload is given {value} as a table.",
        "A workload consists of tables (fitnoise.table) and patterns of tables (fitnoise.all_tables).",
        "Give such tables.",
        "Nothing was planned.",
    )


def list_names(names: Sequence[str], max_names: int = 12) -> str:
    """Return names as a list, for an error; if they are more than `max_names`, the first of them."""
    if len(names) <= max_names:
        return str(list(names))
    return f"{len(names):,} tables, the first of them {list(names[:max_names])}"


def _with_distinct_names(tables: TableSequence) -> TableSequence:
    """Return the tables; one with the default name of an earlier table and other views has a number in its name."""
    views_of: dict[str, list[Any]] = {p.name: [] for p in tables.parts if isinstance(p, Table)}
    parts: list[Table | Family] = []
    for p in tables.parts:
        parts.append(p)
        if isinstance(p, Table) and p.matrix is None and p.name == p.default_name:
            known_views = views_of[p.name]
            if known_views and p.views not in known_views:
                # The first table has no number, so the second one gets 2, or the next number that is no table's name.
                numbers = (f"{p.name} {i}" for i in itertools.count(len(known_views) + 1))
                free = next(name for name in numbers if name not in views_of)
                views_of[free] = []
                parts[-1] = replace(p, name=free)
            known_views.append(p.views)
    return TableSequence(parts)


def _refuse_twins(tables: TableSequence, files: Sequence[str]) -> None:
    seen: dict[str, str] = {}
    for name, key in zip(tables.names, files, strict=True):
        if key in seen:
            raise file_name_twice(seen[key], name, key, "name")
        seen[key] = name


def file_name_twice(table: str, later_table: str, file: str, key_at_fault: str) -> WorkloadError:
    """Return the error for two tables with one file name.

    Args:
        table: The name of the first table.
        later_table: The name of the second table.
        file: The name of the file.
        key_at_fault: The key that holds the second name.
    """
    return WorkloadError(
        "file-name-twice",
        f"The tables {table!r} and {later_table!r} would be written to the same file {file!r}.",
        "",
        "Give one of them another name.",
        "Nothing was planned.",
        place=key_at_fault,
    )


@checked(WorkloadError, "Nothing was planned.")
def matrix_workload(
    matrix: ArrayLike,
    *,
    variances: ArrayLike | None = None,
    std_errors: ArrayLike | None = None,
    margins: ArrayLike | None = None,
    domain: Domain | None = None,
    confidence: float = 0.95,
    name: str = "queries",
) -> Workload:
    """Return a workload of any linear queries about the cells of a domain, one a row.

    Args:
        matrix: The queries W, shape (m, d), finite, without a zero row. Cells are in C order of the domain.
        variances: The target variances c, one number or shape (m,), in people². Or exactly one of the following:
        std_errors: The target standard errors, one number or shape (m,), in people.
        margins: The half-widths at `confidence`, one number or shape (m,), in people.
        domain: The domain of d cells; default: one attribute `cell` with values 0 … d − 1.
        confidence: The confidence level of target margins and printed margins, between 0 and 1.
        name: The name of the one table.

    Raises:
        WorkloadError: Shapes disagree, an entry is not finite, a query is zero, or a target is not positive. Or not
            exactly one kind of target is given, or the domain has an amount or an attribute `query`. Or the confidence
            is not between 0 and 1, or the name is empty.
    """
    dense = op.Dense(np.asarray(matrix))
    m, d = dense.shape
    target_numbers = [
        (kind, x)
        for kind, x in (
            (TargetKind.VARIANCE, variances),
            (TargetKind.STD_ERROR, std_errors),
            (TargetKind.MARGIN, margins),
        )
        if x is not None
    ]
    if len(target_numbers) != 1:
        raise WorkloadError(
            "matrix-not-one-target",
            "The matrix workload does not have exactly one of variances, std_errors and margins.",
            "",
            "Give one of them.",
            "Nothing was planned.",
        )
    ((kind, numbers),) = target_numbers
    values = np.asarray(numbers)
    if values.dtype.kind not in "iuf" or values.shape not in ((), (m,)):
        raise WorkloadError(
            "matrix-targets-misfit",
            f"The targets of {m} queries have the shape {values.shape} and the type {values.dtype}.",
            f"They must be one number, or {m} numbers.",
            "Give one target for all queries, or one for each.",
            "Nothing was planned.",
        )
    # One target for each row is a target by `query`, the column that numbers the rows.
    number: float | ByAttribute = float(values) if values.ndim == 0 else ByAttribute(QUERY, [float(v) for v in values])
    where = domain if domain is not None else Domain(cell=Ordered(0, d - 1))
    # Two columns of one name would be one in the released table.
    if QUERY in where or QUERY in RESERVED:
        raise WorkloadError(
            "attribute-name-reserved",
            f"The domain of the matrix workload has an attribute {QUERY!r}.",
            "The published table has a column of this name.",
            "Give the attribute another name.",
            "Nothing was planned.",
        )
    return Workload(where, [Table(name, (), Target(kind, number), matrix=dense)], confidence)


def used_attributes(workload: Workload) -> set[str]:
    """Return the attributes and levels that some table uses, and those that set the range of a summed amount."""
    parts = workload.tables.parts
    templates = [p if isinstance(p, Table) else p.template for p in parts]
    used = {a for t in templates for a in (*t.attributes, *t.weights(workload.domain))}
    return used | {a for p in parts if isinstance(p, Family) for a in p.pattern_attributes}


def exchangeable_attributes(workload: Workload, also_structured: Iterable[str] = ()) -> tuple[list[str], list[str]]:
    """Return (exchangeable, structured) attributes that some table uses, in domain order.

    The attributes of `also_structured` are structured, and belong to the result even if no table uses them. If a table
    is a matrix, all attributes of the domain are structured. An attribute without levels is exchangeable under two
    conditions. The tables show it value by value or not at all, with one target for all its values. It sets no range
    of a summed amount. Attributes with a joint axis are one structured attribute if tables use two of them.

    A hierarchy is one structured attribute: its deepest level used, or itself for its leaves. It is several
    exchangeable attributes instead if each of its levels used meets three conditions. The tables show the level value
    by value or not at all. They have one target for all its values. All its places have equally many places of the next
    level used. These attributes are the top level, and for each other level the share within the level above it
    (:attr:`Domain.sizes`). To show a level is to show all of these attributes down to it.
    """
    domain, parts = workload.domain, workload.tables.parts
    templates = [p if isinstance(p, Table) else p.template for p in parts]
    if any(t.matrix is not None for t in templates):
        # A row of a matrix can treat each cell in its own way.
        return [], list(domain)
    structured = set(also_structured) | _structured(workload)
    by_home: dict[str, set[str]] = {}
    for a in used_attributes(workload) | set(also_structured):
        by_home.setdefault(domain.attribute_of(a), set()).add(a)
    free: list[str] = []
    bound: list[str] = []
    joined = {home: axis_name(domain, one) for one in _joint_axes(workload) for home in _homes(domain, one)}
    for home in domain:
        if home in joined:
            bound += [] if joined[home] in bound else [joined[home]]
        elif levels := by_home.get(home):
            axes = _chain(domain, home, levels)
            # An axis without a size has places with unequal numbers of lower places: no symmetry holds.
            is_exchangeable = not levels & structured and all(a in domain.sizes for a in axes)
            deepest = max(levels, key=domain.depth)
            leaves = domain.depth(deepest) == domain.depth(home)
            (free if is_exchangeable else bound).extend(axes if is_exchangeable else [home if leaves else deepest])
    return free, bound


def _joint_axes(workload: Workload) -> tuple[JointAxis, ...]:
    """Return the joint axes along which the tables are counted."""
    return used_joint_axes(workload.domain, used_attributes(workload)) if workload.domain.axes.joint else ()


def axes_with_impossible_rows(workload: Workload) -> Iterator[JointAxis]:
    """Yield the joint axes of which tables can have rows that count no joint cell.

    A table then shows several attributes of the axis, or one with a cell in none of its joint cells.

    Args:
        workload: The tables.
    """
    domain = workload.domain
    # Each cell of the cuts with an amount has cells.
    for joint in (one for one in _joint_axes(workload) if one.name not in domain.steps):
        homes = _homes(domain, joint)
        for part in workload.tables.parts:
            template, pattern = (part.template, part.pattern_attributes) if isinstance(part, Family) else (part, ())
            order = part.order if isinstance(part, Family) else 0
            displayed = [a for a in template.attributes if domain.attribute_of(a) in homes]
            among = [a for a in pattern if domain.attribute_of(a) in homes]
            is_partial = any(not has_all_values(domain, joint, a) for a in (*displayed, *among))
            if len(displayed) + min(order, len(among)) > 1 or is_partial:
                yield joint
                break


def counts_by_class(workload: Workload) -> bool:
    """Return True if the tables are counted along a joint axis with classes of values.

    Args:
        workload: The tables.
    """
    return any(any(one.classes) for one in _joint_axes(workload))


def _homes(domain: Domain, joint: JointAxis) -> tuple[str, ...]:
    return domain.axes.attributes_of(joint.name)


def uneven_levels(workload: Workload) -> list[str]:
    """Return the levels shown, top down, of the one hierarchy that makes a workload structured; otherwise no levels.

    The tables show each of these levels value by value or not at all, and nothing else is structured. Some places have
    more places of the next level shown than others, or targets vary by place.
    """
    domain, bound = workload.domain, exchangeable_attributes(workload)[1]
    if len(bound) != 1 or any(isinstance(p, Table) and p.matrix is not None for p in workload.tables.parts):
        return []
    home = domain.attribute_of(bound[0])
    if _joint_axes(workload):
        return []  # The other attributes of the axis follow from its places, and are no levels.
    levels = {a for a in used_attributes(workload) if domain.attribute_of(a) == home}
    is_regular = domain[home].tree is not None and not levels & _structured(workload, targets=False)
    return _path(domain, home, levels) if is_regular else []


def levels_of_one_tree(workload: Workload) -> list[str]:
    """Return the `uneven_levels`; if nothing is structured, the levels shown, top down, of the only hierarchy.

    The result is empty if nothing is structured and no hierarchy is used, or several are: no single one is the tree.
    """
    domain, uneven = workload.domain, uneven_levels(workload)
    if uneven or exchangeable_attributes(workload)[1]:
        return uneven
    used = used_attributes(workload)
    homes = {home for home in map(domain.attribute_of, used) if domain[home].tree is not None}
    if len(homes) != 1:
        return []
    (home,) = homes
    return _path(domain, home, {a for a in used if domain.attribute_of(a) == home})


def attributes_by_level(workload: Workload) -> tuple[list[str], list[str]]:
    """Return the (exchangeable, structured) attributes in domain order, each of `levels_of_one_tree` as one of them."""
    domain, levels = workload.domain, levels_of_one_tree(workload)
    places, trees = list(domain), {domain.attribute_of(a) for a in levels}
    # The levels of the tree stand in for the axes of its hierarchy, which are dropped here.
    free, bound = ([a for a in x if domain.attribute_of(a) not in trees] for x in exchangeable_attributes(workload))
    return sorted([*free, *levels], key=lambda a: places.index(domain.attribute_of(a))), bound


def _structured(workload: Workload, *, targets: bool = True) -> set[str]:
    """Return the attributes that a table shows through a view, and those that set the range of a summed amount.

    With `targets`, the attributes of targets by value are among them.
    """
    templates = [p if isinstance(p, Table) else p.template for p in workload.tables.parts]
    attributes = {a for t in templates for a in t.attributes if not t.view(a).is_by_value}
    attributes |= {a for t in templates for a in t.weights(workload.domain)}
    by_value = {a for t in templates if (a := t.target.attribute) is not None}
    return attributes | by_value if targets else attributes


def _path(domain: Domain, home: str, levels: Iterable[str]) -> list[str]:
    """Return the levels of a hierarchy that are used, top down; for another attribute, the attribute itself."""
    hierarchy = domain[home]
    if hierarchy.tree is None:
        return [home]
    return [hierarchy.levels[depth] for depth in sorted({domain.depth(a) for a in levels})]


def _chain(domain: Domain, home: str, levels: Iterable[str]) -> list[str]:
    """Return the exchangeable attributes that the levels of a hierarchy would be; for another attribute, itself."""
    path = _path(domain, home, levels)
    return [path[0], *(f"{lower} in {upper}" for upper, lower in itertools.pairwise(path))]
