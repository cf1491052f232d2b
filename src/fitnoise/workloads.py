"""Workloads: the tables that will be published, each with a name and a target.

A table asks one *view* of each of its attributes (every value, "at most", ranges, a recode) and publishes every
combination; a matrix workload asks any linear queries about the cells of a domain.
"""

from __future__ import annotations

import abc
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fitnoise import operators as op
from fitnoise.domain import RESERVED, Attribute, Domain, Ordered
from fitnoise.errors import WorkloadError
from fitnoise.targets import By, Kind, Target, check_confidence

QUERY = "query"
"""The column that numbers the rows of a matrix workload."""


class View(abc.ABC):
    """What a table asks along one attribute: a set of queries with a label each."""

    word: str
    """The word that tells this view from others in a table's default name."""

    @abc.abstractmethod
    def operator(self, attribute: Attribute) -> op.Operator:
        """The queries, on the attribute's cells."""

    @abc.abstractmethod
    def labels(self, attribute: Attribute) -> tuple[str | int, ...]:
        """What the released table shows for each query."""


@final
@dataclass(frozen=True)
class Each(View):
    """Every value on its own."""

    word = ""

    def operator(self, attribute: Attribute) -> op.Operator:
        """The identity."""
        return op.Identity(attribute.size)

    def labels(self, attribute: Attribute) -> tuple[str | int, ...]:
        """The values."""
        return attribute.values


@final
@dataclass(frozen=True)
class AtMost(View):
    """Every "at most this value" (cumulative counts): the row labelled v counts records with value ≤ v."""

    word = "prefix"

    def operator(self, attribute: Attribute) -> op.Operator:
        """Cumulative sums; WorkloadError when the attribute has no order."""
        if not attribute.ordered:
            raise WorkloadError(
                "prefix needs an attribute with an order (Ordered or Binned); a categorical one has none."
            )
        return op.Prefix(attribute.size)

    def labels(self, attribute: Attribute) -> tuple[str | int, ...]:
        """The upper ends."""
        return attribute.values


@final
@dataclass(frozen=True)
class Ranges(View):
    """Intervals of values, ends included; all of them when `bounds` is None."""

    bounds: tuple[tuple[Any, Any], ...] | None = None
    word = "ranges"

    def _cells(self, attribute: Attribute) -> tuple[tuple[int, int], ...]:
        if not attribute.ordered:
            raise WorkloadError(
                "ranges need an attribute with an order (Ordered or Binned); recode a categorical one instead."
            )
        if self.bounds is None:
            n = attribute.size
            if n > 2048:
                raise WorkloadError(f"all ranges of {n} values are {n * (n + 1) // 2} queries; name the ranges wanted.")
            return tuple((i, j) for i in range(n) for j in range(i, n))
        return tuple((attribute.position(a), attribute.position(b)) for a, b in self.bounds)

    def operator(self, attribute: Attribute) -> op.Operator:
        """Interval sums."""
        return op.Intervals(attribute.size, self._cells(attribute))

    def labels(self, attribute: Attribute) -> tuple[str | int, ...]:
        """Texts such as "18 – 64"."""
        v = attribute.values
        return tuple(str(v[i]) if i == j else f"{v[i]} – {v[j]}" for i, j in self._cells(attribute))


@final
@dataclass(frozen=True)
class Recode(View):
    """Named groups of values; groups may overlap and may leave values out."""

    groups: tuple[tuple[str, tuple[Any, ...]], ...]
    word = "recode"

    def operator(self, attribute: Attribute) -> op.Operator:
        """Group sums."""
        return op.Groups(
            attribute.size, tuple(tuple(attribute.position(v) for v in values) for _, values in self.groups)
        )

    def labels(self, attribute: Attribute) -> tuple[str | int, ...]:
        """The groups' names."""
        names = tuple(name for name, _ in self.groups)
        if len(set(names)) != len(names):
            raise WorkloadError(f"a recode names a group twice: {list(names)}.")
        return names


EACH = Each()


@final
@dataclass(frozen=True)
class Table:
    """One table to publish. Make it with :func:`table` or :func:`matrix_workload`.

    `attributes` are its columns in order, `views` what is asked of those that are not shown value by value;
    `matrix` is set instead for explicit queries about all cells of the domain.
    """

    name: str
    attributes: tuple[str, ...]
    target: Target
    views: tuple[tuple[str, View], ...] = ()
    matrix: op.Dense | None = None

    def view(self, attribute: str) -> View:
        """What is asked of one of the table's attributes."""
        return dict(self.views).get(attribute, EACH)

    def labels(self, domain: Domain) -> dict[str, tuple[str | int, ...]]:
        """Row labels per column of the released table."""
        if self.matrix is not None:
            return {QUERY: tuple(range(self.matrix.shape[0]))}
        return {a: self.view(a).labels(domain[a]) for a in self.attributes}

    def shape(self, domain: Domain) -> tuple[int, ...]:
        """Rows along each column of the released table."""
        return tuple(len(v) for v in self.labels(domain).values())

    def targets(self, domain: Domain) -> NDArray[np.float64]:
        """The numbers of the target as the user said them, broadcast to the table's shape."""
        shape = self.shape(domain)
        number = self.target.number
        if not isinstance(number, By):
            return np.broadcast_to(np.float64(number), shape)
        labels = self.labels(domain)
        if number.attribute not in labels:
            raise WorkloadError(
                f"table {self.name!r} has a target by {number.attribute!r}, which is not one of its columns "
                f"{list(labels)}."
            )
        axis = list(labels).index(number.attribute)
        along = number.along(labels[number.attribute])
        return np.broadcast_to(along.reshape([-1 if i == axis else 1 for i in range(len(shape))]), shape)

    def variances(self, domain: Domain, confidence: float) -> NDArray[np.float64]:
        """The variance asked for each number of the table, in people², of the table's shape."""
        shape = self.shape(domain)
        return self.target.variance(self.targets(domain), confidence, math.prod(shape))

    def check(self, domain: Domain) -> None:
        """Raise WorkloadError or DomainError unless the table can be asked of this domain."""
        if self.matrix is not None:
            if self.matrix.shape[1] != domain.size:
                raise WorkloadError(
                    f"the matrix has {self.matrix.shape[1]} columns; the domain has {domain.size} cells."
                )
            zero = np.flatnonzero(~self.matrix.matrix.any(axis=1))
            if zero.size:
                raise WorkloadError(
                    f"query {zero[0]} is zero everywhere: its answer is always 0, without error; leave it out."
                )
        for a in self.attributes:
            domain[a]
            self.view(a).operator(domain[a])
        self.targets(domain)


def slug(name: str) -> str:
    """A table's file name without its ending: lower-case letters of any script, digits and underscores."""
    return re.sub(r"[\W_]+", "_", name.lower()).strip("_") or "table"


def _listed(value: str | Iterable[str] | None) -> tuple[str, ...]:
    if value is None:
        return ()
    return (value,) if isinstance(value, str) else tuple(value)


def table(
    *attributes: str,
    prefix: str | Sequence[str] | None = None,
    ranges: str | Mapping[str, Sequence[tuple[Any, Any]] | None] | None = None,
    recode: Mapping[str, Mapping[str, Iterable[Any]]] | None = None,
    margin: float | By | None = None,
    std_error: float | By | None = None,
    variance: float | By | None = None,
    max_deviation: float | By | None = None,
    cv: float | By | None = None,
    reference: float | None = None,
    confidence: float | None = None,
    name: str | None = None,
) -> Table:
    """A table to publish: one number for every combination of its attributes' values.

    Args:
        attributes: names of attributes of the domain, shown value by value; none of all means the grand total.
        prefix: attributes shown as "at most this value" instead.
        ranges: attributes shown as ranges: a name for all ranges, or a mapping name → list of (first, last).
        recode: attributes shown as groups: a mapping name → {group: values}.
        margin: half-width of the interval at `confidence`, in people. Or exactly one of the following:
        std_error: standard error, in people.
        variance: variance, in people².
        max_deviation: bound on the error of *all* numbers of the table at once, at `confidence`, in people.
        cv: relative standard error (0.05 is 5 %) at the count given as `reference`.
        reference: the public count a `cv` refers to.
        confidence: overrides the workload's for this table.
        name: how the table is called; default: the attributes joined by "by".

    Raises:
        WorkloadError: no target or several, an attribute twice, a target that is not a positive finite number.

    Example:
        `table("status", prefix="age", margin=30)` publishes, for each status, every "age at most a" to ±30.
    """
    spans = {ranges: None} if isinstance(ranges, str) else dict(ranges or {})
    views: dict[str, View] = {a: AtMost() for a in _listed(prefix)}
    for extra in (
        {a: Ranges(None if b is None else tuple((x, y) for x, y in b)) for a, b in spans.items()},
        {a: Recode(tuple((str(g), tuple(v)) for g, v in m.items())) for a, m in (recode or {}).items()},
    ):
        for a, view in extra.items():
            if a in views:
                raise WorkloadError(f"attribute {a!r} has two views in one table; publish two tables.")
            views[a] = view
    for a in attributes:
        if not isinstance(a, str):
            raise WorkloadError(f"a table is made of attribute names; got {a!r}.")
    listed = _listed(prefix)
    columns = attributes + tuple(a for a in views if a not in attributes)
    columns += tuple(a for i, a in enumerate(listed) if a in listed[:i])
    if len(set(columns)) != len(columns):
        twice = next(a for i, a in enumerate(columns) if a in columns[:i])
        raise WorkloadError(f"attribute {twice!r} appears twice in one table.")
    said = {
        kind: number
        for kind, number in zip(Kind, (margin, std_error, variance, max_deviation, cv), strict=True)
        if number is not None
    }
    if len(said) != 1:
        given = " and ".join(k.value for k in said) or "none"
        raise WorkloadError(
            f"a table needs exactly one target ({', '.join(k.value for k in Kind)}); got {given}. "
            "If several must hold, give the strictest."
        )
    ((kind, number),) = said.items()
    default = " by ".join(f"{a} {views[a].word}" if a in views else a for a in columns) or "total"
    return Table(
        name=name if name is not None else default,
        attributes=columns,
        target=Target(kind, number, confidence, reference),
        views=tuple(views.items()),
    )


@final
@dataclass(frozen=True)
class Workload:
    """The tables to publish over a domain.

    Args:
        domain: the attributes.
        tables: one or more tables, with names that differ.
        confidence: of every margin that does not say its own, and of the margins printed with the results.

    Raises:
        WorkloadError: no tables, names that repeat, or a table that cannot be asked of this domain.
    """

    domain: Domain
    tables: tuple[Table, ...] = field()
    confidence: float = 0.95

    def __init__(self, domain: Domain, tables: Iterable[Table], confidence: float = 0.95) -> None:
        items = tuple(tables)
        if not isinstance(domain, Domain):
            raise WorkloadError(f"a workload needs a Domain; got {type(domain).__name__}.")
        if not items:
            raise WorkloadError("a workload needs at least one table; got none.")
        for t in items:
            if not isinstance(t, Table):
                raise WorkloadError(f"a workload is made of tables (see fitnoise.table); got {t!r}.")
            if not t.name.strip():
                raise WorkloadError("a table's name must not be empty.")
            t.check(domain)
            wanted = t.variances(domain, check_confidence(confidence))
            if not ((wanted > 0) & np.isfinite(wanted)).all():
                raise WorkloadError(f"a target of table {t.name!r} is too small or too large for double precision.")
        seen: dict[str, str] = {}
        for t in items:
            key = slug(t.name)
            if key in seen:
                raise WorkloadError(
                    f"tables {seen[key]!r} and {t.name!r} would be written to the same file {key!r}; "
                    "give one of them another name."
                )
            seen[key] = t.name
        object.__setattr__(self, "domain", domain)
        object.__setattr__(self, "tables", items)
        object.__setattr__(self, "confidence", check_confidence(confidence))

    def __getitem__(self, name: str) -> Table:
        for t in self.tables:
            if t.name == name:
                return t
        raise WorkloadError(f"no table {name!r}; the workload has {[t.name for t in self.tables]}.")


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
    """Any linear queries about the cells of a domain, one a row.

    Args:
        matrix: W, shape (m, d), finite, no zero row. Cells in C order of the domain.
        variances: c, one number or shape (m,), in people². Or exactly one of the following:
        std_errors: one number or shape (m,), in people.
        margins: half-widths at `confidence`, one number or shape (m,), in people.
        domain: of d cells; default: one attribute `cell` with values 0 … d − 1.
        confidence: for margins asked and printed.
        name: of the one table.

    Raises:
        WorkloadError: shapes that disagree, non-finite entries, a zero query, targets that are not positive.
    """
    dense = op.Dense(np.asarray(matrix))
    m, d = dense.shape
    said = [
        (kind, x)
        for kind, x in (
            (Kind.VARIANCE, variances),
            (Kind.STD_ERROR, std_errors),
            (Kind.MARGIN, margins),
        )
        if x is not None
    ]
    if len(said) != 1:
        raise WorkloadError("a matrix workload needs exactly one of variances, std_errors and margins.")
    ((kind, numbers),) = said
    values = np.asarray(numbers)
    if values.dtype.kind not in "iuf" or values.shape not in ((), (m,)):
        raise WorkloadError(
            f"targets of {m} queries are one number or {m} numbers; got shape {values.shape} of {values.dtype}."
        )
    number: float | By = float(values) if values.ndim == 0 else By(QUERY, [float(v) for v in values])
    where = domain if domain is not None else Domain(cell=Ordered(0, d - 1))
    if QUERY in where or QUERY in RESERVED:
        raise WorkloadError(f"an attribute may not be called {QUERY!r} in a matrix workload.")
    return Workload(where, [Table(name, (), Target(kind, number), matrix=dense)], confidence)
