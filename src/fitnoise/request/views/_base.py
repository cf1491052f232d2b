"""The members of every view, and the rules that several views share.

A view is the form in which a table shows one attribute. Its class states everything about it: the key in a
specification, the queries, the labels, and the ids of its texts for readers. No member has a default that could
mislabel a number.
"""

from __future__ import annotations

import abc
import enum
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self, final

from fitnoise.algebra import operators as op
from fitnoise.errors import WorkloadError
from fitnoise.kernel.checks import is_integer, refuse_incomplete
from fitnoise.kernel.codings import Code
from fitnoise.messages import Message, Value, ValueKind
from fitnoise.request.attributes import Attribute, CodingRule
from fitnoise.request.number_rules import PublicTotal


@final
class RowOrder(enum.Enum):
    """The order of a view's first rows, of which a chart draws a line."""

    SEQUENCE = "one value after another, also for codes in their declared order"
    ATTRIBUTE = "the order of the attribute, if it has one"
    NONE = "no order"


class View(abc.ABC):
    """The queries of a table along one attribute, with a label each.

    The cells for missing values are in no order and in no range. A view by value shows all of them, and groups show
    those that they name. With `missing`, cumulative counts, ranges and groups give each of these cells that they would
    leave out a row of its own, after the others.
    """

    row_order: ClassVar[RowOrder]
    """The order of its rows."""

    is_by_value: ClassVar[bool]
    """True if it shows each value of the attribute, with the number of its records."""

    is_sum: ClassVar[bool]
    """True if it adds up the numbers of the attribute."""

    signed: ClassVar[bool]
    """True if a number of this view can be negative for some records."""

    is_causal: ClassVar[bool]
    """True if the row of a value needs no later value, so that a series can show its periods this way."""

    heading_text: ClassVar[str | None]
    """The id of the heading of its column; None for the name of the attribute."""

    rows_text: ClassVar[str | None]
    """The id of the sentence that explains its rows; None if the labels say all."""

    column_text: ClassVar[str | None]
    """The id of the meaning of its column in files; None if the column holds values."""

    missing: bool = False
    """True if the cells for missing values that the view leaves out have rows of their own."""

    ceiling: float | None = None
    """The amount up to which a sum counts amounts; None for the largest, and for all other views."""

    def __init_subclass__(cls, **options: Any) -> None:
        """Raise TypeError if a class lacks a member, or inherits the texts of another view.

        Args:
            options: Further arguments of the class.
        """
        super().__init_subclass__(**options)
        # A direct base ABC marks a class that several views share, such as SteppedView.
        if abc.ABC in cls.__bases__:
            return
        parents = [c for c in cls.__mro__[1:] if issubclass(c, View)]
        if views := [c.__name__ for c in parents if abc.ABC not in c.__bases__]:
            raise TypeError(f"The class {cls.__name__} inherits from the view {views[0]}.")
        # Checked when the class is made: a view without a text would otherwise fail in the first report that shows it.
        refuse_incomplete(cls)

    @property
    @abc.abstractmethod
    def name_suffix(self) -> str:
        """The words for this view in the default name of a table."""

    @abc.abstractmethod
    def operator(self, attribute: Attribute) -> op.Operator:
        """Return the queries on the attribute's cells, (rows, cells). Raise WorkloadError if it cannot be shown so."""

    @abc.abstractmethod
    def labels(self, attribute: Attribute) -> tuple[str | int, ...]:
        """Return the label of each query, in the order of the operator's rows, as the released table shows them."""

    @property
    def text_values(self) -> tuple[Value, ...]:
        """The values that its texts name, in addition to the attribute."""
        return ()

    @final
    def heading(self, name: str) -> Message | str:
        """Return the heading of the column of an attribute."""
        return name if self.heading_text is None else Message(self.heading_text, self._values_for(name))

    @final
    def meaning(self, name: str) -> Message | None:
        """Return the sentence that explains the rows of an attribute; None if the labels say all."""
        return None if self.rows_text is None else Message(self.rows_text, self._values_for(name))

    @final
    def column(self) -> Message | None:
        """Return the meaning of its column in files; None if the column holds values."""
        return None if self.column_text is None else Message(self.column_text, self.text_values)

    def left_out(self, attribute: Attribute) -> tuple[int, ...]:
        """Return the positions of the cells for missing values that no query counts, unless `missing` adds them."""
        return tuple(range(attribute.own_size, attribute.size))

    def labelled_cells(self, attribute: Attribute) -> slice:
        """Return the cells whose labels are those of the rows, in order; none if rows have labels of their own."""
        del attribute
        return slice(0)

    @final
    def stub(self, name: str, attribute: Attribute) -> dict[str, tuple[Code | float, ...]]:
        """Return the columns that say what the rows are: the labels, then codes or the ends of bins.

        Args:
            name: The name of the attribute.
            attribute: The attribute.
        """
        cells = self.labelled_cells(attribute)
        further = attribute.further_columns if cells.stop else {}
        return {name: self.labels(attribute), **{f"{name}_{ending}": x[cells] for ending, x in further.items()}}

    @final
    def row_names(self, attribute: Attribute) -> tuple[Code, ...]:
        """Return the names that distinguish the rows: the labels, or codes if two values have one label."""
        cells = self.labelled_cells(attribute)
        return attribute.cell_names[cells] if cells.stop else self.labels(attribute)

    def unshown(self, attribute: Attribute) -> tuple[int, ...]:
        """Return the positions of the other cells that no query of the view counts, in order."""
        del attribute
        return ()

    def coding_rules(self, attribute: Attribute) -> tuple[CodingRule, ...]:
        """Return the rules for values without a cell of their own, such as cut amounts; empty without such rules."""
        return attribute.coding_rules

    def scale(self, attribute: Attribute) -> float:
        """Return the factor from a target of the published numbers to that of the queries; 1 except for a mean."""
        del attribute
        return 1.0

    def rows(self, attribute: Attribute) -> int:
        """Return the number of queries."""
        return len(self.labels(attribute))

    @final
    def _values_for(self, name: str) -> tuple[Value, ...]:
        return (Value("name", name), *self.text_values)

    @final
    def _added(self, attribute: Attribute) -> tuple[int, ...]:
        return self.left_out(attribute) if self.missing else ()

    @final
    def _with_added(self, labels: tuple[str | int, ...], attribute: Attribute) -> tuple[str | int, ...]:
        """Return the labels, and the names of the cells that `missing` adds. Raise WorkloadError if two are equal."""
        # The cells for missing values come after the own ones, so `own_size` is the position of the first.
        names = tuple(attribute.missing_cells[i - attribute.own_size] for i in self._added(attribute))
        for name in set(labels).intersection(names):
            raise WorkloadError(
                "row-name-twice",
                f"Two rows have the name {name!r}: a range or group, and a cell that missing adds.",
                "",
                "Rename the cell or the group, or leave missing out.",
                "Nothing was planned.",
                place="missing",
            )
        return labels + names

    @final
    def _uncounted(self, attribute: Attribute, counted: Iterable[int]) -> tuple[int, ...]:
        """Return the positions of the cells of values that are not among the `counted` positions, in order."""
        counted_cells = set(counted)
        return tuple(i for i in range(attribute.own_size) if i not in counted_cells)


@final
@dataclass(frozen=True)
class Entry:
    """The statement of a table about one attribute, as the publisher gave it.

    `value` is what the view's key says about the attribute, or None if the key only names it. `missing`, `ceiling` and
    `reference` are keys of the table.
    """

    attribute: str
    value: Any
    missing: bool = False
    ceiling: float | None = None
    reference: float | PublicTotal | None = None


class KeyedView(View, abc.ABC):
    """A view with a key of its own in specifications, which is also an argument of :func:`fitnoise.table`."""

    key: ClassVar[str]
    """The key: a name, a list of names, or a value for each name."""

    kind: ClassVar[Any]
    """The values of the key, as an annotation for pydantic."""

    description: ClassVar[str]
    """The description of the key and of the argument."""

    @classmethod
    @abc.abstractmethod
    def parse(cls, entry: Entry) -> Self:
        """Return the view of an attribute. Raise WorkloadError if the entry states no view of this class."""

    @property
    @abc.abstractmethod
    def document(self) -> Any:
        """The value from which `parse` reads this view; None if the key only names its attributes."""

    @property
    def further_keys(self) -> Mapping[str, Any]:
        """The further keys of its table that `parse` reads, without `missing`; empty for most views."""
        return {}

    @property
    def name_suffix(self) -> str:
        """The key in words."""
        return self.key.replace("_", " ")

    @classmethod
    def key_document(cls, views: Mapping[str, Self]) -> Any:
        """Return the value of the key: the names alone if the views have no values, otherwise a value by name."""
        # The shorter form where it says the same: documents of equal tables are equal.
        values = {a: view.document for a, view in views.items()}
        return list(values) if all(value is None for value in values.values()) else values


@dataclass(frozen=True)
class SteppedView(KeyedView, abc.ABC):
    """A view along the values in their declared order. Each row combines a value and others up to `steps` before it.

    steps: A whole number of at least `min_steps`.
    """

    steps: int
    min_steps: ClassVar[int] = 2
    row_order, is_by_value, is_sum = RowOrder.SEQUENCE, False, False
    kind: ClassVar[Any] = dict[str, int]

    @classmethod
    def parse(cls, entry: Entry) -> Self:
        """Return the view; a name alone means one step. Raise WorkloadError for fewer steps than `min_steps`."""
        # A list of names states no steps, and the step of one is what most tables mean.
        n = 1 if entry.value is None else entry.value
        if not is_integer(n) or n < cls.min_steps:
            raise WorkloadError(
                "steps-unusable",
                f"The number of values for {cls.key} of {entry.attribute!r} is {n!r}.",
                f"It must be a whole number of at least {cls.min_steps}.",
                "Give such a number.",
                "Nothing was planned.",
                place=cls.key,
            )
        return cls(int(n))

    @property
    def document(self) -> int:
        """The number of steps."""
        return self.steps

    @property
    def name_suffix(self) -> str:
        """The key in words, with the steps if they are several."""
        return f"{super().name_suffix} {self.steps}" if self.steps > 1 else super().name_suffix

    @property
    def text_values(self) -> tuple[Value, ...]:
        """The number of steps."""
        return (Value("count", self.steps, ValueKind.COUNT),)

    def _length(self, attribute: Attribute, needed: int) -> int:
        """Return the number of values, without cells for missing ones.

        Raises:
            WorkloadError: The values have no sequence, or are fewer than `needed`.
        """
        # Categorical codes have a declared order, such as months, and count as ordered here only.
        if not attribute.has_sequence:
            raise WorkloadError(
                "values-need-sequence",
                f"The attribute of {self.key} is {attribute.kind}.",
                "Its values must follow one another: ordered, binned, or categorical in the order of its codes.",
                "Name such an attribute.",
                "Nothing was planned.",
                place=self.key,
            )
        if attribute.own_size < needed:
            raise WorkloadError(
                "too-few-values",
                f"The attribute of {self.key} has {attribute.own_size} values.",
                f"With {self.key} over {self.steps} values, it needs at least {needed} of them.",
                "Use fewer steps, or another attribute.",
                "Nothing was planned.",
                place=self.key,
            )
        return attribute.own_size


def values_by_name(key_value: Any) -> Iterator[tuple[str, Any]]:
    """Yield each attribute that the value of a key names, with its own value, or None if the key only names it.

    Args:
        key_value: A name, names, a mapping from names to values, or None.

    Raises:
        WorkloadError: A name is no text.
    """
    names = () if key_value is None else (key_value,) if isinstance(key_value, str) else key_value
    for name in names:
        if not isinstance(name, str):
            raise WorkloadError(
                "attribute-name-not-text",
                f"The table names an attribute {name!r}.",
                "Names of attributes are texts.",
                "Give names of attributes.",
                "Nothing was planned.",
            )
        yield name, names[name] if isinstance(names, Mapping) else None
