"""The domain of axes: for each attribute the rule that gives a record its cell. Part of the trust kernel.

**Purpose.** An axis describes one column of the data: the name of the column, the coding of its values, and the
structure of its cells. It has no labels: the attributes of publishers (`fitnoise.request.attributes`) have them, and
make the axes. Counting, prices, keys and neighbours depend on axes alone. Nothing is inferred from data. A value that
is absent from the data still has its cells, so that its absence stays private. Cells are in C order of the axes as
declared.

**Trust.** Two axes with one key (`cell_key`) give every record the same cell. Accounts and profiles rely on this.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, cast, final

import numpy as np
from numpy.typing import NDArray

from fitnoise.errors import DataError, DomainError
from fitnoise.kernel.arrays import Indices
from fitnoise.kernel.codings import VALUE_CODINGS, Coding, CodingWithMissing, Steps, encodable
from fitnoise.kernel.dates import DateField
from fitnoise.kernel.immutable import FixedMapping
from fitnoise.kernel.places import LeafCodes, Tree
from fitnoise.kernel.units import Adjacency, DataSource, PrivacyUnit, RecordBound

CODINGS: Final[tuple[type[Coding], ...]] = (CodingWithMissing, LeafCodes, *VALUE_CODINGS)
"""The codings of axes."""

JOINED: Final = " × "
"""The text between the names of a joint axis."""


def class_axis(name: str, k: int) -> str:
    """Return the name of the axis of the values of an attribute in a class."""
    return f"{name} in class {k}"


NO_RULES: Final[FixedMapping[str, Any]] = FixedMapping({})
"""The rules of a domain that calls no combination impossible."""


@final
@dataclass(frozen=True)
class Axis:
    """One column of the data, and the cell of each of its values.

    coding: The coding of the values of the column, or of the parts read off them, into cells.
    column: The column of the data; `None` when it has the name of the axis.
    date_part: The part that is read off a date in the column; `None` where the value itself is read.
    ordered: True if "at most" has a meaning for the cells of values.
    tree: The tree of places of a hierarchy, whose leaves are the cells; `None` for all other axes.

    Raises:
        DomainError: A field is of another type, or the coding is of a class that no counter translates.
        DomainError: The cells of a hierarchy are not the leaves of its tree, or the steps of an amount are uncut.
        DomainError: A part of a date is read, and the coding does not take whole-number codes or has steps or places.
    """

    coding: Coding
    column: str | None = None
    date_part: DateField | None = None
    ordered: bool = False
    tree: Tree | None = None

    def __post_init__(self) -> None:
        # A subclass could compute cells in Python that no counter's SQL computes.
        if type(self.coding) not in CODINGS or type(self.coding.values) not in CODINGS[1:]:
            raise DomainError(
                "unknown-coding",
                "A coding of an attribute is of the class "
                f"{type(self.coding if type(self.coding) not in CODINGS else self.coding.values).__name__}.",
                "No counter translates this class here.",
                "Use `Codes`, `Range`, `Cuts` or `Steps`, or `CodingWithMissing` around one of them.",
                "No domain was made.",
            )
        values = self.coding.values
        is_tree = self.tree is None or (
            values is self.coding and values.places is self.tree and values.size == self.tree.sizes[-1]
        )
        is_column = self.column is None or (type(self.column) is str and self.column != "")
        is_date = type(self.date_part) in (DateField, type(None))
        if not (is_column and is_date and is_tree and type(self.ordered) is bool) or values.is_uncut:
            raise DomainError(
                "axis-field-invalid",
                "An axis has a field of another type, cells that are not the leaves of its tree, or uncut steps.",
                "It takes the name of a column, a DateField, a boolean, the tree of its coding, and cut steps.",
                "Give these fields in the types of the kernel.",
                "No domain was made.",
            )
        if self.date_part is not None and (values.places or values.pieces or values.kind is not int):
            raise DomainError(
                "axis-date-part-invalid",
                "A part of a date is read, and the codes of the axis are not whole numbers, each with a cell.",
                "Parts of dates are whole numbers, and are counted one by one.",
                "Give a coding of whole numbers, or no part of a date.",
                "No domain was made.",
            )

    @property
    def size(self) -> int:
        """Number of cells."""
        return self.coding.counted_size

    @property
    def own_size(self) -> int:
        """The number of cells of values, for an amount the number of its knots; missing-value categories come after."""
        return self.coding.values.counted_size

    @property
    def steps(self) -> tuple[int, ...]:
        """The number of steps of an amount from each knot to the next; empty for all other axes.

        The knots are the first cells of the amount.
        """
        return self.coding.pieces

    def cell(self, value: object) -> int | None:
        """Return the cell of a value of the data, or `None` if it is outside the domain.

        A value is outside if it is missing, not declared, or of another type than the coding reads (`codings`), unless
        a missing-value category takes it. For an amount the result is the step j, from 0 to K, and K + 1 and so on for
        missing-value categories. For an amount with a range by another axis, use :meth:`Domain.cells`.

        **Guarantees**
            * The result depends only on the value and the axis: not on other records, nor on the source of the value.
            * The result is `None` or from 0 to `coding.size` − 1. No input raises an error, except for an amount with a
              range by another axis.
            * Every counter counts a record in exactly the cells of its values, or in none when one of them is outside.
        """
        return self.coding.cell(value if self.date_part is None else self.date_part.number(value))

    def drops(self, by_default: bool) -> bool:
        """Return True if records may be left out for their value here, given the default action of the source."""
        return bool(self.coding.dropped(drop=by_default))


@final
@dataclass(frozen=True)
class JointAxis:
    """An axis whose cells are combinations of cells of several axes. All other combinations have no cell.

    names: At least two axes or levels, of different axes, and no amount. Or cuts, and an amount of the same column.
    cells: The position along each of these, for every cell; in increasing order, each combination once. The position
        along an amount is a step. With classes, the position is a class.
    classes: For each of the names the class of each of its cells, from 0; empty for a name whose positions are cells.

    Nothing proves that the other combinations do not occur. Data with a counted record of one of them are refused, so
    a price by these cells holds for any list. A domain may have joint axes by which no design counts.

    *Amounts.* A record in a cell of cuts has an amount between two steps, and they follow from the codings of both axes
    (:func:`cells_with_amount`). The list must have exactly these cells. The record adds to the cells of adjacent
    steps what it adds to adjacent knots (:mod:`fitnoise.kernel.designs.query_blocks`), so the theorem of that module
    holds.

    *Classes.* A record lies in one cell of the joint axis, that of the classes of its values. Each class of several
    values is an axis of its own, too. A record lies there at the position of its value in the class, or at 0 if its
    value is of another class. So each record has one position along each axis. A price that holds for all positions
    along the axes of classes and all cells of the joint axis holds for each record.
    """

    names: tuple[str, ...]
    cells: tuple[tuple[int, ...], ...]
    classes: tuple[tuple[int, ...], ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "classes", self.classes or ((),) * len(self.names))

    @property
    def name(self) -> str:
        """The name of the axis: "age × group"."""
        return JOINED.join(self.names)

    def column(self, name: str) -> Indices:
        """Return the position along one of the named axes, for every cell."""
        return np.array(self.cells)[:, self.names.index(name)]

    @property
    def class_axes(self) -> dict[str, Indices]:
        """The axes of classes of several values, such as "age in class 1": the position along it of each combination.

        The combinations are those of cells of the names. Along the axes of other names, an array has length 1.
        """
        rows = enumerate(zip(self.names, self.classes, strict=True))
        classes = [(i, name, k, np.array(row) == k) for i, (name, row) in rows for k in sorted({*row})]
        shapes = np.where(np.eye(len(self.names), dtype=bool), -1, 1).tolist()
        out = {class_axis(name, k): (x * (x.cumsum() - 1)).reshape(shapes[i]) for i, name, k, x in classes}
        return {name: positions for name, positions in out.items() if positions.any()}


@final
@dataclass(frozen=True, init=False)
class Domain(Mapping[str, Axis]):
    """Named axes, in order: `Domain({"state": Axis(Codes(codes)), "age": Axis(Range(0, 85), ordered=True)})`.

    Levels of a hierarchy can be looked up by name, as axes can. A record has one cell of the hierarchy, so iteration
    yields the hierarchy and not its levels. A design may count by joint axes, which are no axes of the mapping.

    Raises:
        DomainError: There are no axes, or two names differ at most in case.
        DomainError: A name is empty, or holds a line break, a tab or a double quote.
        DomainError: A value is not an axis.
        DomainError: An amount has a range for each cell of another axis, and the domain has no axis with these cells.
        DomainError: A joint axis or a rule does not fit the axes.
    """

    entries: tuple[tuple[str, Axis], ...]
    joint: Mapping[str, JointAxis]
    """The joint axes by name."""
    rules: Mapping[str, JointAxis]
    """The rules by name, each with the combinations that it calls impossible. A record with one of them is outside."""
    sizes: Mapping[str, int] = field(init=False, repr=False, compare=False)
    """The number of cells of everything by which a design may count.

    These are attributes, levels, shares of levels, joint axes, and classes of values of joint axes. The share "county
    in state" exists where all states have equally many counties. It is the position of a record's county in its state,
    0 for the first. State and share determine the county.
    """
    steps: Mapping[str, tuple[int, ...]] = field(init=False, repr=False, compare=False)
    """The number of steps of every amount from each knot to the next; the knots are its first cells.

    For a joint axis of an amount it is the number from each cell to the next. It is 0 where the next has other cuts, or
    no amount.
    """
    _by_name: Mapping[str, tuple[str, int, Axis]] = field(init=False, repr=False, compare=False)
    """For each attribute and level its attribute, its depth and its axis."""
    _shares: Mapping[str, HierarchyShare] = field(init=False, repr=False, compare=False)
    _homes: Mapping[str, str] = field(init=False, repr=False, compare=False)
    """The results of `attribute_of`."""

    def __init__(
        self, axes: Mapping[str, Axis], joint: Iterable[JointAxis] = (), rules: Mapping[str, JointAxis] = NO_RULES
    ) -> None:
        # Copied first: a mapping could answer otherwise after it was checked.
        items = tuple(dict(axes).items())
        if not items:
            raise DomainError(
                "attributes-missing",
                "The domain has no attribute.",
                "A domain needs at least one attribute.",
                "Declare an attribute.",
                "No domain was made.",
            )
        # A rule excludes cells, and no classes.
        rules = {name: replace(one, classes=()) for name, one in rules.items()}
        lowered: dict[str, str] = {}
        homes = {name: name for name in rules}
        by_name: dict[str, tuple[str, int, Axis]] = {}
        for home, axis in items:
            if type(axis) is not Axis:
                raise DomainError(
                    "not-an-axis",
                    f"The object under {home!r} is of the type {type(axis).__name__}.",
                    "The domain of the kernel has axes.",
                    "Give the member axes of a domain of attributes.",
                    "No domain was made.",
                    place=home if type(home) is str else None,
                )
            for name, entry in _names(home, axis):
                _check_name(name, lowered)
                by_name[name], homes[name] = entry, home
        shares: dict[str, HierarchyShare] = {}
        sizes: dict[str, int] = {}
        for home, axis in items:
            _check_classes(home, axis, dict(items))
            sizes |= {name: entry.size for name, (_, _, entry) in _names(home, axis)}
            for name, part in _shares(home, axis):
                # A share, such as "county in state", must not have the name of an attribute either.
                _check_name(name, lowered)
                shares[name], sizes[name], homes[name] = part, part.size, home
        steps = {name: axis.steps for name, axis in items if axis.steps}
        by_joint: dict[str, JointAxis] = {}
        for one in joint:
            if pieces := _check_joint(one, by_name):
                steps[one.name] = pieces
            by_joint[one.name] = one
            own_sizes = {one.name: len(one.cells)} | {name: int(x.max()) + 1 for name, x in one.class_axes.items()}
            for name, size in own_sizes.items():
                _check_name(name, lowered)
                homes[name], sizes[name] = one.name, size
        for name, one in rules.items():
            _check_joint(one, {a: entry for a, entry in by_name.items() if not entry[2].steps})
            _check_name(name, lowered)
        object.__setattr__(self, "entries", items)
        values = (("sizes", sizes), ("steps", steps), ("_by_name", by_name), ("_shares", shares), ("joint", by_joint))
        for name, value in (*values, ("rules", rules), ("_homes", homes)):
            object.__setattr__(self, name, FixedMapping(value))

    def __getitem__(self, name: str) -> Axis:
        return self._entry(name)[2]

    def _entry(self, name: str) -> tuple[str, int, Axis]:
        if name in self._by_name:
            return self._by_name[name]
        raise unknown_attribute(name, self._by_name)

    def get(self, name: object, default: Any = None, /) -> Any:
        """Return the axis of an attribute or a level, or the default for any other name.

        Args:
            name: The name of an attribute or a level; anything else gives the default.
            default: The result for an unknown name.
        """
        # `Mapping.get` would expect a KeyError for an unknown name, not a DomainError.
        return self[name] if isinstance(name, str) and name in self else default

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def __iter__(self) -> Iterator[str]:
        return (name for name, _ in self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def drops(self, by_default: bool) -> tuple[str, ...]:
        """Return the names of the axes for whose values records may be left out of all tables.

        Args:
            by_default: True if the data source leaves out records outside the domain.
        """
        return tuple(name for name, axis in self.entries if axis.drops(by_default))

    def cells(self, record: Mapping[str, object]) -> dict[str, int | None]:
        """Return the cell of a record along every axis; counters are tested against this.

        Args:
            record: The value in each column; a column that it lacks is a missing value.

        Returns:
            The results of :meth:`Axis.cell`, by axis: `None` outside the domain. For an amount with a range by another
            axis, the step in the range of the record's cell there. It is `None` if the record has no cell there.
        """
        # Amounts with ranges by class come last, because they need the cell of their class.
        values = {name: record.get(self.column(name)) for name in self}
        cells = {name: axis.cell(values[name]) for name, axis in self.entries if axis.coding.attribute is None}
        for name, axis in self.entries:
            classifier = axis.coding.attribute
            if classifier is not None:
                cell = cells[classifier]
                cells[name] = None if cell is None else axis.coding.for_class(cell).cell(values[name])
        return {name: cells[name] for name in self}

    def leaves_out(self, source: DataSource, bound: RecordBound | None) -> bool:
        """Return True if records may be left out of all tables: for a value, a rule, a condition, or a missing id.

        The result considers all attributes, shown in a table or not: one more table changes no other table's truth.

        Args:
            source: The source of the records, with its conditions.
            bound: The bound on counted records of a unit, with its id.
        """
        return bool(source.where) or self.drops_values(source, bound)

    def drops_values(self, source: DataSource, bound: RecordBound | None) -> bool:
        """Return True if records may be left out of all tables for a value or a rule, or because they have no id.

        Args:
            source: The source of the records.
            bound: The bound on counted records of a unit, with its id.
        """
        # A record without an id is outside, as a record with a value outside the domain is.
        by_rule = bool(self.rules) and source.drops_by_rule
        return by_rule or bool(self.drops(source.drops)) or (source.drops and bound is not None)

    def column(self, name: str) -> str:
        """Return the column of the data that holds this attribute.

        Args:
            name: The name of an attribute, a level or a share (`county in state`).

        Raises:
            DomainError: There is no such attribute.
        """
        home = self.attribute_of(name)
        return self[home].column or home

    def attribute_of(self, name: str) -> str:
        """Return the attribute to which a level or a share belongs; for the name of an attribute, this name.

        A joint axis or a rule belongs to none of its attributes: the result is its own name. A class belongs to its
        joint axis.

        Args:
            name: The name of an attribute, a level, a share (`county in state`), a joint axis, a class or a rule.

        Raises:
            DomainError: There is no such attribute.
        """
        return self._homes[name] if name in self._homes else self._entry(name)[0]

    def attributes_of(self, name: str) -> tuple[str, ...]:
        """Return the attributes that a counter reads for a name: several for a joint axis, otherwise `attribute_of`.

        Args:
            name: The name of an attribute, a level, a share, a joint axis or a class.

        Raises:
            DomainError: There is no such attribute.
        """
        home = self.attribute_of(name)
        return tuple(map(self.attribute_of, self.joint[home].names if home in self.joint else (home,)))

    def is_nested(self, upper: str, lower: str, above: Indices) -> bool:
        """Return True if `above` gives, for each place of the level `lower`, its place of the level `upper`.

        The result is False for attributes that are no hierarchy, or two different ones.

        Args:
            upper: The name of the upper level.
            lower: The name of the lower level.
            above: Positions of places of the upper level, of shape (places of the lower level,).

        Raises:
            DomainError: There is no such attribute.
        """
        home = self[self.attribute_of(upper)]
        if home.tree is None or self.attribute_of(lower) != self.attribute_of(upper):
            return False
        return np.array_equal(home.tree.above(self.depth(upper), self.depth(lower)), above)

    def depth(self, name: str) -> int:
        """Return the depth of a level in its hierarchy, 0 at the top.

        A share has the depth of its lower level, and a hierarchy that of its leaves.

        Args:
            name: The name of an attribute, a level or a share (`county in state`). The result is 0 without a hierarchy.

        Raises:
            DomainError: There is no such attribute.
        """
        return self._shares[name].lower if name in self._shares else self._entry(name)[1]

    def max_cells_sharing(self, name: str, axes: Collection[str]) -> int:
        """Return the largest number of cells of an attribute that lie in one place along all of these axes.

        Args:
            name: The name of an attribute.
            axes: Names of the attribute itself, of its levels and of shares of them.

        Raises:
            DomainError: There is no such attribute.
        """
        axis = self[name]
        if name in axes:
            return 1
        if not axes or axis.tree is None:
            return axis.size
        # An axis that is a level has no upper place, so it counts all places of the level (upper −1).
        parts = map(self._shares.get, axes)
        return axis.tree.max_leaves_sharing(
            (-1 if part is None else part.upper, self.depth(a)) for a, part in zip(axes, parts, strict=True)
        )

    def columns(self, axis: str) -> dict[str, Indices]:
        """Return the position along each name of a joint axis, for every cell of an axis that determines it.

        A joint axis does so, and so does an axis whose cells are those of the joint axis, in order. Data with a counted
        record of another combination are refused, so all counted records of a cell have these positions. A name whose
        classes are not its cells, in order, is left out: a class is no cell.

        Args:
            axis: The name of any axis. The result is empty for one that determines no joint axis.
        """
        out: dict[str, Indices] = {}
        for one in self.joint.values():
            names = [name for name, row in zip(one.names, one.classes, strict=True) if not row]
            has_all = axis in names and np.array_equal(one.column(axis), np.arange(self.sizes[axis]))
            out |= {name: one.column(name) for name in names if has_all or axis == one.name}
        return out

    def adjacency(self, source: DataSource, unit: PrivacyUnit) -> Adjacency:
        """Return the neighbour relation of two databases of such records for a unit.

        Args:
            source: The source of the records.
            unit: The unit of protection.
        """
        # Within attributes, a record and its replacement both meet the conditions, by the promise.
        left_out = self.drops_values if unit.within else self.leaves_out
        return Adjacency(unit, drops=left_out(source, unit.bound), grid=self)

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of cells per attribute."""
        return tuple(axis.size for _, axis in self.entries)

    @property
    def size(self) -> int:
        """The number of cells of the domain, Π sizes."""
        return math.prod(self.shape)

    def counting_axes(self, margin: Sequence[str]) -> tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]:
        """Return the attributes and levels by which records are counted for a margin, each with the axes it lies along.

        The counts of a level are laid out along a level above it and the shares from there down. `county` lies along
        (`state`, `county in state`), in C order. Several attributes lie along their joint axis and the axes of classes
        (`counts_along`). A name without a share of its hierarchy lies along itself.

        Raises:
            DomainError: Shares do not follow one another down the tree, or one attribute is to be counted twice.
        """
        # A hierarchy with shares in the margin is counted once, by one level, for all of its names.
        shared = dict.fromkeys(self._shares[name].home for name in margin if name in self._shares)
        out = {home: self._path(home, [name for name in margin if self.attribute_of(name) == home]) for home in shared}
        homes = {name: self.attribute_of(name) for name in margin}
        out |= {a: (one.names, (a, *(x for x in homes if homes[x] == a != x))) for a, one in self.joint.items()}
        joined = [home for a in self.joint.keys() & homes.values() for home in self.attributes_of(a)]
        if len(set(joined)) < len(joined) or not set(joined).isdisjoint(homes.values()):
            raise DomainError(
                "joint-axis-beside-attribute",
                f"The margin {list(margin)} has an attribute twice, at least once in a joint axis.",
                "Records are counted by each attribute once.",
                "Count by the joint axis alone.",
                "Nothing was read and nothing was charged.",
            )
        return tuple(dict.fromkeys(out.get(home, ((name,), (name,))) for name, home in homes.items()))

    def counts_along(
        self, counts: NDArray[Any], axes: Sequence[tuple[tuple[str, ...], tuple[str, ...]]], parts: int = 1
    ) -> NDArray[Any]:
        """Return counts along the axes of a margin.

        Args:
            counts: The counts of the attributes and levels of `axes`, in their order.
            axes: The result of :meth:`counting_axes` for the margin.
            parts: The count of one record. The error states the number of records if it is 1.

        Raises:
            DataError: There are records with a combination of cells that a joint axis does not have.
        """
        out = counts.reshape([math.prod(self.sizes[a] for a in names) for names, _ in axes])
        for position, (names, own_axes) in enumerate(axes):
            name = own_axes[0]
            if name in self.steps and name in self.joint:
                out = np.moveaxis(np.tensordot(self._counts_within(self.joint[name]), out, (1, position)), 0, position)
            elif name in self.joint:
                places, by_cells = self._places(self.joint[name], own_axes), np.moveaxis(out, position, 0)
                outside = by_cells[places < 0]
                if outside.any():
                    raise DataError(
                        "combination-not-planned",
                        f"The data have combinations of {list(names)} that the plan does not list; the number of "
                        f"counted records with them is: {int(outside.sum()) if parts == 1 else 'some'}.",
                        "The plan lists all combinations that rules and declarations allow. The number is exact and "
                        "must not be published.",
                        "Count a copy of the data. If the error remains, report it to the authors of fitnoise, because "
                        "the list is then not complete.",
                        "Nothing was measured and nothing was charged.",
                    )
                by_place = np.zeros((math.prod(self.sizes[a] for a in own_axes), *by_cells.shape[1:]), out.dtype)
                np.add.at(by_place, places[places >= 0], by_cells[places >= 0])
                out = np.moveaxis(by_place, 0, position)
        return np.asarray(out.reshape([self.sizes[name] for _, names in axes for name in names]))

    def _places(self, one: JointAxis, axes: Sequence[str]) -> Indices:
        """Return the place of each combination of cells of the names of a joint axis, −1 outside.

        Places are in C order of the axes: the joint axis, and some of its classes.
        """
        labels = [row or range(self.sizes[name]) for name, row in zip(one.names, one.classes, strict=True)]
        shape = [max(row) + 1 for row in labels]
        cell_of = np.full(math.prod(shape), -1)
        cell_of[np.ravel_multi_index(np.array(one.cells).T, shape)] = np.arange(len(one.cells))
        cells = cell_of[np.ravel_multi_index(np.ix_(*labels), shape)]
        positions = (cells.clip(0), *(one.class_axes[a] for a in axes[1:]))
        return np.where(cells < 0, -1, np.ravel_multi_index(positions, [self.sizes[a] for a in axes])).ravel()

    def _counts_within(self, one: JointAxis) -> NDArray[np.int64]:
        """Return the integers that give the counts along a joint axis of cuts and an amount, (cells, product of both).

        A record whose amount lies between steps u and v of adjacent cells adds its steps from u to the cell of v. A
        cell without a lower adjacent one gets the rest of the record.
        """
        passed = np.cumsum((0, *self.steps[one.names[1]]))
        out = np.zeros((len(one.cells), *(self.sizes[name] for name in one.names)), dtype=np.int64)
        for i, ((b, j), rise) in enumerate(zip(one.cells, (0, *self.steps[one.name]), strict=True)):
            if j > passed[-1]:
                out[i, b, j - passed[-1] + len(passed) - 1] = 1
            elif not rise:
                start, out[i, b, : len(passed)] = i, 1
            else:
                s = int(np.searchsorted(passed, j))  # The knot at j, or the first above it.
                out[i, b, s] = 1
                out[i, b, : len(passed)] -= j - rise - passed[s - 1]
                out[start] -= out[i]
        return out.reshape(len(out), -1)

    def _path(self, home: str, names: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the level by which levels and shares of a hierarchy are counted, and the axes along which it lies."""
        # Shares follow one another if the levels at which they start and end, in order, make exactly the given names.
        parts = [self._shares[name] for name in names if name in self._shares]
        depths = {self.depth(name) for name in names if name in self._by_name}
        depths.update(depth for part in parts for depth in (part.upper, part.lower))
        path = [part.levels[depth] for part in parts[:1] for depth in sorted(depths)]
        axes = (path[0], *(f"{lower} in {upper}" for upper, lower in itertools.pairwise(path)))
        if not set(names) <= set(axes) or not set(axes[1:]) <= set(self._shares):
            raise DomainError(
                "shares-not-nested",
                f"The shares {list(names)} do not follow one another down the hierarchy {home!r}.",
                "Records cannot be counted by them.",
                "Use shares of which each starts at the level where the one before ends.",
                "Nothing was read and nothing was charged.",
            )
        return (path[-1],), axes


@final
@dataclass(frozen=True)
class HierarchyShare:
    """The position of a place of a lower level in its upper place; all upper places have equally many lower ones.

    home: The name of the hierarchy.
    levels: The names of all its levels, from the top down.
    upper, lower: The depths of the two levels, 0 at the top.
    size: The number of lower places in each upper place.
    """

    home: str
    levels: tuple[str, ...]
    upper: int
    lower: int
    size: int


def unknown_attribute(name: object, names: Iterable[str]) -> DomainError:
    """Return the error for a name that a domain does not have.

    Args:
        name: The unknown name.
        names: The names of the attributes and levels of the domain.
    """
    return DomainError(
        "unknown-attribute",
        f"The domain has no attribute {name!r}.",
        f"Its attributes are {list(names)}.",
        "Name one of these attributes.",
        "No attribute was found.",
        place=name if isinstance(name, str) else None,
    )


def _names(home: str, axis: Axis) -> Iterator[tuple[str, tuple[str, int, Axis]]]:
    """Yield an attribute and its levels, each with the attribute, its depth and its axis."""
    levels = () if axis.tree is None else axis.tree.levels
    last = max(len(levels) - 1, 0)
    yield home, (home, last, axis)
    for depth, name in enumerate(levels):
        # The last level may have the name of the hierarchy.
        if axis.tree is not None and (depth < last or name != home):
            yield name, (home, depth, Axis(LeafCodes(axis.tree, depth), axis.column))


def _shares(home: str, axis: Axis) -> Iterator[tuple[str, HierarchyShare]]:
    if axis.tree is not None:
        levels = axis.tree.levels
        for upper, lower in itertools.combinations(range(len(levels)), 2):
            size = axis.tree.children_per_place(upper, lower)
            if size is not None:
                yield f"{levels[lower]} in {levels[upper]}", HierarchyShare(home, levels, upper, lower, size)


def _check_classes(home: str, axis: Axis, axes: Mapping[str, Axis]) -> None:
    """Raise DomainError for an amount whose ranges by class are not those of the cells of another axis."""
    attribute = axis.coding.attribute
    if attribute is not None:
        classes = sum(len(cells) for _, cells in axis.coding.ranges)
        classifier = axes.get(attribute)
        if classifier is None or classifier.steps or classifier.size != classes:
            raise DomainError(
                "range-axis-invalid",
                f"The ranges of the amount {home!r} depend on {attribute!r}.",
                "The domain needs an attribute of this name, with a cell for each range, which is no amount.",
                "Declare one range for each cell of that attribute.",
                "No domain was made.",
                place=home,
            )


def cells_with_amount(bins: Axis, amount: Axis) -> tuple[tuple[int, int], ...]:
    """Return the cells of cuts, each with steps of an amount of the same column; no cells for other axes.

    With a cell of cuts are listed its least and its largest step, the knots between them, and the cells of missing
    values. With a cell of missing values are listed all knots.

    *Proof.* Every operation of `Steps.cell` increases with the number. So a number of a cell has a step from that of
    the lower cut to that of the largest double below the upper cut.
    """
    points, last = np.array(bins.coding.values.cuts), sum(amount.steps)
    if not len(points) or not last or amount.coding.attribute is not None or bins.date_part is not None:
        return ()
    # Numbers that are not valid have no step, so those that are valid decide.
    cut_to_range = replace(cast(Steps, amount.coding.values), valid=None)
    first_steps, end_steps = (cut_to_range.vector(x).tolist() for x in (points, np.nextafter(points, -math.inf)))
    bounds = [*zip([0, *first_steps], [*end_steps, last], strict=True), *[(0, last)] * (bins.size - bins.own_size)]
    knots = np.cumsum((0, *amount.steps)).tolist()
    return tuple(
        (b, j)
        for b, (u, v) in enumerate(bounds)
        for j in sorted({u, max(v, u), *(t for t in knots if u < t < v), *range(last + 1, amount.coding.size)})
    )


def _check_joint(one: JointAxis, by_name: Mapping[str, tuple[str, int, Axis]]) -> tuple[int, ...]:
    """Raise DomainError for a joint axis that does not fit the axes; return its steps if it has an amount."""
    entries = [by_name[name] for name in one.names if name in by_name]
    axes, columns = [axis for *_, axis in entries], {axis.column or home for home, _, axis in entries}
    cells = cells_with_amount(*axes) if len(axes) == len(one.names) == 2 and len(columns) == 1 else ()
    # True equals 1, and 1.0 does.
    if cells and one.cells == cells and not any(one.classes) and {type(i) for cell in one.cells for i in cell} == {int}:
        last = sum(axes[1].steps)
        return tuple(v - u if a == b and v <= last else 0 for (a, u), (b, v) in itertools.pairwise(one.cells))
    homes, lengths = {home for home, *_ in entries}, [range(axis.size) for axis in axes if not axis.steps]
    fits = 1 < len(one.names) == len(one.classes) == len(lengths) == len(homes) and len(one.cells) > 0
    rows = [*zip(one.classes, lengths, strict=False)]
    fits = fits and all(not row or _is_within(row, [n] * len(n)) for row, n in rows)
    lengths = [range(max(row) + 1) if row else n for row, n in rows if fits]
    # A record of a cell that is listed twice would count twice.
    if not fits or [*one.cells] != sorted({*one.cells}) or not all(_is_within(cell, lengths) for cell in one.cells):
        raise DomainError(
            "joint-axis-invalid",
            f"The joint axis of {list(one.names)} does not fit the axes of its domain.",
            "It joins at least two axes, none of which is an amount, and lists combinations of their cells in "
            "increasing order. Or it joins cuts with an amount of the same column, and lists the steps of each cell.",
            "Give such names and combinations.",
            "No domain was made.",
        )
    return ()


def _is_within(cell: Sequence[object], lengths: Sequence[range]) -> bool:
    return len(cell) == len(lengths) and all(type(i) is int and i in r for i, r in zip(cell, lengths, strict=True))


def _check_name(name: object, lowered: dict[str, str]) -> None:
    """Raise DomainError for a name that cannot be a column, or that another one is taken for; remember it."""
    if type(name) is not str or not name.strip() or not encodable(name) or any(c in name for c in '\n\r\t"\0'):
        raise DomainError(
            "attribute-name-invalid",
            f"An attribute is named {name!r}.",
            "Its name must be a text with visible characters, without line breaks, tabs and double quotes.",
            "Rename the attribute.",
            "No domain was made.",
        )
    if name.lower() in lowered:
        other = lowered[name.lower()]
        raise DomainError(
            "attribute-name-repeated",
            f"The names of two attributes or levels are {other!r} and {name!r}.",
            "Two names must differ by more than case.",
            "Rename one of the two.",
            "No domain was made.",
            place=name,
        )
    lowered[name.lower()] = name


def cell_key(domain: Domain, name: str, source: DataSource | None = None, *, left_out: bool = True) -> str:
    """Return the SHA-256 of all that determines the cell of a record along an axis.

    It covers the column, the part of a date, and the coding: codes or ends in order, and the cells of missing and
    other values. For an amount with ranges by class it covers the axis of the classes. No label is covered: a publisher
    may correct one, and keeps the account. The key of a hierarchy is that of its leaves: its levels have keys of
    their own. For a joint axis it covers the keys of its attributes, and all its cells.

    Args:
        domain: The domain of the axis.
        name: The name of an attribute, a level or a joint axis.
        source: A source whose format for the column the key covers, too.
        left_out: True to cover also the rule of the source for left-out records. These are its conditions, the keys of
            the axes for whose values it drops records, and the rules by which it does. If it leaves out none, this
            changes nothing.

    Raises:
        DomainError: There is no such attribute.
    """
    form = source and source.format
    if name in domain.joint:
        definition = _joint_key(domain, domain.joint[name], source)
    else:
        axis = domain[name]
        column, date_part, classifier = domain.column(name), axis.date_part, axis.coding.attribute
        class_key = classifier and cell_key(domain, classifier, source, left_out=False)
        definition = [column, date_part and date_part.document, axis.coding.definition, class_key]
        definition += form.key(column) if form else []
    if source is not None and left_out and domain.leaves_out(source, None):
        definition += [[[c.column, c.document, *(form.key(c.column) if form else [])] for c in source.conditions]]
        definition += sorted(cell_key(domain, a, source, left_out=False) for a in domain.drops(source.drops))
        definition += sorted(_joint_key(domain, x, source) for x in domain.rules.values() if source.drops_by_rule)
    # No spaces: equal definitions give equal bytes, and so equal keys.
    document = json.dumps(definition, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(document.encode("ascii")).hexdigest()


def _joint_key(domain: Domain, one: JointAxis, source: DataSource | None) -> list[Any]:
    """Return all that determines the combinations of a joint axis or a rule."""
    keys = [cell_key(domain, a, source, left_out=False) for a in one.names]
    return [keys, one.cells, *(one.classes if any(one.classes) else ())]


def axis_key(domain: Domain, name: str, source: DataSource | None = None, *, left_out: bool = True) -> str:
    """Return the name of an axis with its :func:`cell_key`. Two plans with the same key have the same cells.

    Args:
        domain: The domain of the axis.
        name: The name of an attribute, a level or a joint axis.
        source: A source for keys that two plans share only if both read the column in one format (:func:`cell_key`).
        left_out: True for keys that two plans share only if both leave out the same records, too.

    Raises:
        DomainError: There is no such attribute.
    """
    return f"{name}:{cell_key(domain, name, source, left_out=left_out)}"
