"""Rules about cells in which no record can be: their forms, and the cells that they leave. No data.

A rule is a box of impossible cells, or a list of the possible ones. A box names values of several attributes that never
go together. A list names the combinations of several attributes that occur. A rule is a fact of law or definition. A
rule that someone reads off the data reveals something about persons, and no noise protects them.
"""

from __future__ import annotations

import itertools
import json
import math
from collections import Counter as Multiset
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast, final

import numpy as np
import numpy.typing as npt

from fitnoise.errors import DomainError, SpecError, advise_name
from fitnoise.kernel.arrays import Floats, Indices
from fitnoise.kernel.codings import Code
from fitnoise.kernel.conditions import Condition, conditions
from fitnoise.kernel.domain import JointAxis
from fitnoise.request.csv_rows import codes_from_texts, read_rows

if TYPE_CHECKING:
    from fitnoise.kernel.codings import Interval
    from fitnoise.request.attributes import Attribute

Mask = npt.NDArray[np.bool_]

MAX_RULE_CELLS = 2**20
"""The largest number of joint cells of attributes that rules connect: a plan lists the possible ones of a rule."""

MAX_NAMED = 20
"""The largest number of names or values that an error lists."""

NO_DOMAIN = "No domain was made."
"""The outcome of errors in rules."""


class Attributes(Protocol):
    """A domain, as far as rules read it (:class:`fitnoise.request.domain.Domain`)."""

    @property
    def sizes(self) -> Mapping[str, int]:
        """The number of cells of each attribute and level."""

    def __getitem__(self, name: str, /) -> Attribute:
        """Return an attribute or a level."""

    def __contains__(self, name: object, /) -> bool:
        """Return True for the name of an attribute or a level."""

    def __iter__(self) -> Iterator[str]:
        """Yield the attributes."""

    def attribute_of(self, name: str, /) -> str:
        """Return the attribute of a level."""

    def depth(self, name: str, /) -> int:
        """Return the depth of a level in its hierarchy."""


@final
@dataclass(frozen=True)
class ImpossibleBox:
    """Values of several attributes that no record has together.

    conditions: For each attribute or level a condition on its values, in the order of their names.
    """

    conditions: tuple[Condition, ...]

    @property
    def document(self) -> dict[str, Any]:
        """The rule as plain JSON values, in the form of `where` in a specification."""
        return {c.column: c.document for c in self.conditions}

    def ruled_cells(self, domain: Attributes) -> RuledCells:
        """Return the cells that the rule leaves.

        Args:
            domain: The attributes.

        Raises:
            DomainError: As for `chosen_cells`.
        """
        chosen = chosen_cells(domain, self.conditions)
        names = in_order(domain, chosen)
        possible = np.ones(_shape(domain, names), dtype=bool)
        possible[np.ix_(*(np.flatnonzero(chosen[name]) for name in names))] = False
        return RuledCells(names, possible)


@final
@dataclass(frozen=True)
class PossibleList:
    """The combinations of several attributes that occur; no record has another one.

    names: The attributes and levels.
    rows: Their values in each combination, as the publisher states them.
    """

    names: tuple[str, ...]
    rows: tuple[tuple[Code, ...], ...]

    @property
    def document(self) -> dict[str, Any]:
        """The rule as plain JSON values."""
        return {"attributes": list(self.names), "rows": [list(row) for row in self.rows]}

    def ruled_cells(self, domain: Attributes) -> RuledCells:
        """Return the cells that the rule leaves.

        Args:
            domain: The attributes.

        Raises:
            DomainError: An attribute or a value is unknown, or an attribute is an amount. Or there are two levels of
                one hierarchy, fewer than two attributes, too many joint cells, or all combinations.
        """
        homes: set[str] = set()
        for name in self.names:
            _refuse_attribute(domain, name, homes)
            homes.add(domain.attribute_of(name))
        _refuse_single(self.names)
        names = in_order(domain, self.names)
        possible = np.zeros(_shape(domain, names), dtype=bool)
        columns = dict(zip(self.names, zip(*self.rows, strict=True), strict=True)) if self.rows else {}
        possible[tuple(_positions(domain, name, columns[name]) for name in names if columns)] = bool(columns)
        if possible.all():
            raise DomainError(
                "possible-list-complete",
                f"The list of possible combinations of {list(names)} has all of them.",
                "A list leaves out at least one combination, which no record can have.",
                "Remove the list, or correct it.",
                NO_DOMAIN,
            )
        return RuledCells(names, possible)


Rule = ImpossibleBox | PossibleList


@final
@dataclass(frozen=True, eq=False)
class RuledCells:
    """The possible joint cells of attributes of rules.

    names: The attributes and levels, each of another attribute, in the order of the domain.
    possible: True for the possible joint cells, in the shape of their cells.
    """

    names: tuple[str, ...]
    possible: Mask

    def possible_among(self, domain: Attributes, names: Sequence[str]) -> Mask:
        """Return True for the possible joint cells of some of the attributes, in the shape of their cells.

        Args:
            domain: The domain of the rules.
            names: These attributes, or levels of them, in the order of the domain.
        """
        homes = {domain.attribute_of(name): name for name in names}
        gone = tuple(i for i, name in enumerate(self.names) if domain.attribute_of(name) not in homes)
        out = np.asarray(self.possible.any(axis=gone))
        remaining = (name for name in self.names if domain.attribute_of(name) in homes)
        for axis, ruled_name in enumerate(remaining):
            name = homes[domain.attribute_of(ruled_name)]
            if domain.depth(name) >= domain.depth(ruled_name):
                out = out.take(cells_from_finer(domain, ruled_name, name), axis)
            else:
                coarse = np.zeros((domain.sizes[name], *np.delete(out.shape, axis)), dtype=bool)
                np.logical_or.at(coarse, cells_from_finer(domain, name, ruled_name), np.moveaxis(out, axis, 0))
                out = np.moveaxis(coarse, 0, axis)
        return out


def box_from(stated: object) -> ImpossibleBox:
    """Return the rule that a publisher states in the form of `where`.

    Args:
        stated: For each attribute or level one value, a list of texts, {"values": […]}, or bounds.

    Raises:
        DomainError: It has another form.
    """
    try:
        return ImpossibleBox(conditions(stated))
    except SpecError as error:
        raise DomainError(
            "impossible-rule-form",
            error.given.replace("The value of where", "A rule of impossible cells"),
            error.needed,
            error.action,
            NO_DOMAIN,
        ) from None


def list_from(combinations: object) -> PossibleList:
    """Return the rule that a publisher states by possible combinations.

    Args:
        combinations: A CSV file with a column for each attribute. Or a data frame or a mapping of such columns.

    Raises:
        DomainError: It has another form, or the file cannot be read.
    """
    if isinstance(combinations, (str, Path)):
        names, rows = read_rows(Path(combinations), "the file of possible combinations")
        columns: dict[str, list[Any]] = {}
        for name in names:
            # A field that a short row lacks is no text, and so no code.
            columns[name] = codes_from_texts([row[name] for row in rows])
    elif isinstance(combinations, Mapping) or hasattr(combinations, "columns"):
        table = cast("Mapping[str, Any]", combinations)
        columns = {str(name): list(table[name]) for name in getattr(table, "columns", table)}
    else:
        raise DomainError(
            "possible-list-form",
            f"Possible combinations are given as {type(combinations).__name__}.",
            "They are a CSV file, a data frame, or a mapping with a list of values for each attribute.",
            "Give one of these.",
            NO_DOMAIN,
        )
    if len({len(column) for column in columns.values()}) > 1:
        raise DomainError(
            "possible-list-lengths",
            "The columns of possible combinations have different lengths.",
            "Each row is one combination.",
            "Give each attribute as many values.",
            NO_DOMAIN,
        )
    return PossibleList(tuple(columns), tuple(dict.fromkeys(zip(*columns.values(), strict=True))))


def in_order(domain: Attributes, names: Sequence[str] | Mapping[str, object]) -> tuple[str, ...]:
    """Return attributes and levels in the order of the domain.

    Args:
        domain: The domain.
        names: The attributes and levels, each of another attribute.
    """
    position = {home: i for i, home in enumerate(domain)}
    return tuple(sorted(names, key=lambda name: position[domain.attribute_of(name)]))


def cells_from_finer(domain: Attributes, name: str, finer: str) -> Indices:
    """Return the cell of an attribute or level for each cell of a finer level, or of itself.

    Args:
        domain: The domain.
        name: The attribute or level.
        finer: A level that is not above it.
    """
    tree = domain[domain.attribute_of(name)].tree
    return np.arange(domain.sizes[name]) if tree is None else tree.above(domain.depth(name), domain.depth(finer))


def connected_cells(domain: Attributes, rules: Sequence[Rule]) -> tuple[RuledCells, ...]:
    """Return the possible joint cells by all rules: for each group of attributes that rules connect.

    Args:
        domain: The attributes.
        rules: The rules.

    Raises:
        DomainError: A rule does not fit the attributes, or attributes have too many joint cells. Or no cell is
            possible, or no combination with some value is.
    """
    ruled = [rule.ruled_cells(domain) for rule in rules]
    groups: list[list[RuledCells]] = []
    for one in ruled:
        homes = {*map(domain.attribute_of, one.names)}
        joined = [g for g in groups if any(not homes.isdisjoint(map(domain.attribute_of, x.names)) for x in g)]
        groups = [*(g for g in groups if g not in joined), [*itertools.chain(*joined), one]]
    return tuple(_intersection(domain, group) for group in groups)


def _intersection(domain: Attributes, ruled: Sequence[RuledCells]) -> RuledCells:
    """Return the joint cells that all of some connected rules leave."""
    finest: dict[str, str] = {}
    for name in sorted((name for one in ruled for name in one.names), key=domain.depth):
        finest[domain.attribute_of(name)] = name
    names = in_order(domain, tuple(finest.values()))
    possible = np.ones(_shape(domain, names), dtype=bool)
    axis_of = {domain.attribute_of(name): i for i, name in enumerate(names)}
    for one in ruled:
        index = []
        for name in one.names:
            axis = axis_of[domain.attribute_of(name)]
            cells = cells_from_finer(domain, name, names[axis])
            index.append(cells.reshape([-1 if i == axis else 1 for i in range(len(names))]))
        possible &= one.possible[tuple(index)]
    if not possible.any():
        raise DomainError(
            "impossible-everything",
            "The rules exclude all cells.",
            "At least one cell must be possible.",
            "Remove or correct a rule.",
            NO_DOMAIN,
        )
    for axis, name in enumerate(names):
        occurs = possible.any(axis=tuple(i for i in range(len(names)) if i != axis))
        if not occurs.all():
            value = domain[name].cell_names[int(occurs.argmin())]
            is_missing = value in domain[name].missing_cells
            raise DomainError(
                "impossible-value",
                f"By the rules, no combination with {value!r} of {name!r} is possible.",
                "Each value of an attribute occurs in a possible combination.",
                f"Add the combinations with {value!r} to the list, or correct the rule."
                if is_missing
                else f"Leave {value!r} out of the domain, or correct the rule.",
                NO_DOMAIN,
                place=name,
            )
    return RuledCells(names, possible)


def _shape(domain: Attributes, names: Sequence[str]) -> list[int]:
    """Return the numbers of cells of attributes of connected rules; refuse too many joint cells."""
    shape = [domain.sizes[name] for name in names]
    if math.prod(shape) > MAX_RULE_CELLS:
        raise DomainError(
            "impossible-too-many-cells",
            f"The attributes {list(names)} of the rules have {math.prod(shape):,} joint cells.",
            f"The attributes that rules connect may have at most {MAX_RULE_CELLS:,} joint cells.",
            "Remove the rules on one of these attributes, or state them on a higher level of a hierarchy.",
            NO_DOMAIN,
        )
    return shape


def chosen_cells(domain: Attributes, rule: Sequence[Condition]) -> dict[str, Mask]:
    """Return the cells of a box, True for those in it, by attribute or level.

    Args:
        domain: The attributes.
        rule: The conditions.

    Raises:
        DomainError: A rule has an unknown attribute or value, an amount, fewer than two attributes, or two levels of
            one hierarchy. Or bounds cut through a cell or contain no cell.
    """
    chosen: dict[str, Mask] = {}
    homes: set[str] = set()
    for condition in rule:
        _refuse_attribute(domain, condition.column, homes)
        homes.add(domain.attribute_of(condition.column))
        chosen[condition.column] = _cells(domain, condition)
    _refuse_single(tuple(chosen))
    return chosen


def _refuse_attribute(domain: Attributes, name: str, homes: set[str]) -> None:
    """Raise DomainError for a name that a rule cannot have; `homes` are the attributes that it has already."""
    if name not in domain:
        names = [x for home in domain for x in (home, *domain[home].levels)]
        raise DomainError(
            "impossible-unknown-attribute",
            f"A rule is on {name!r}, which is no attribute.",
            "",
            advise_name(name, names, choose(names)),
            NO_DOMAIN,
            place=name,
        )
    home = domain.attribute_of(name)
    if domain[home].steps:
        raise DomainError(
            "impossible-amount",
            f"A rule is on {name!r}, which is an amount.",
            "Rules are on attributes whose values have cells of their own.",
            "Remove the amount from the rule.",
            NO_DOMAIN,
            place=name,
        )
    if home in homes:
        raise DomainError(
            "impossible-two-levels",
            f"A rule is on two levels of the hierarchy {home!r}.",
            "A rule names each hierarchy once.",
            "Name the places of one level.",
            NO_DOMAIN,
            place=name,
        )


def _refuse_single(names: Sequence[str]) -> None:
    """Raise DomainError for a rule on fewer than two attributes."""
    if len(names) < 2:
        raise DomainError(
            "impossible-one-attribute",
            f"A rule is on {', '.join(map(repr, names))} alone." if names else "A rule names no attribute.",
            "A rule states which values of several attributes do not go together.",
            "Add another attribute. A value that no record has is left out of the domain."
            if names
            else "Name two attributes or more.",
            NO_DOMAIN,
        )


def _position(domain: Attributes, name: str, code: Code) -> int:
    """Return the cell of a value that a rule names."""
    attribute = domain[name]
    try:
        return attribute.position(code)
    except DomainError as error:
        if error.code == "domain.label-of-several-codes":
            raise DomainError(
                "impossible-label-of-several-codes", error.given, error.needed, error.action, NO_DOMAIN, place=name
            ) from None
        raise DomainError(
            "impossible-unknown-value",
            f"A rule has the value {code!r} of {name!r}, which is not declared.",
            error.needed,
            advise_name(code, [*attribute.values, *attribute.label_codes], choose(attribute.values)),
            NO_DOMAIN,
            place=name,
        ) from None


def _positions(domain: Attributes, name: str, codes: Sequence[Code]) -> list[int]:
    """Return the cells of values that a rule names."""
    # 1 and true are equal keys, and different codes
    cells = {key: _position(domain, name, key[1]) for key in dict.fromkeys((type(code), code) for code in codes)}
    return [cells[type(code), code] for code in codes]


def _cells(domain: Attributes, condition: Condition) -> Mask:
    """Return the cells of an attribute or level that a condition names, (cells,)."""
    name, attribute = condition.column, domain[condition.column]
    chosen = np.zeros(attribute.size, dtype=bool)
    for code in condition.codes:
        chosen[_position(domain, name, code)] = True
    if condition.bounds:
        spans = _spans(attribute)
        is_date = condition.read is not None
        if is_date or spans is None:
            raise DomainError(
                "impossible-bounds",
                f"A rule has {'a date for' if is_date else 'bounds on'} {name!r}.",
                f"The values of {name!r} are no {'dates' if is_date else 'numbers or ranges of numbers'}.",
                f"Write values or bounds that they have, such as {_example(attribute)}.",
                NO_DOMAIN,
                place=name,
            )
        # a condition with bounds has no codes
        interval, (start, stop) = cast("Interval", condition.coding), spans
        inside = (start >= interval.low) & (stop <= interval.high)
        cut = ~inside & (start < interval.high) & (stop > interval.low)
        if cut.any():
            cell = attribute.own_values[int(cut.argmax())]
            raise DomainError(
                "impossible-cell-cut",
                f"A bound on {name!r} cuts through the cell {cell!r}.",
                "A rule holds for all values of a cell.",
                "Move the bound to an end of this cell, or name the cells.",
                NO_DOMAIN,
                place=name,
            )
        if not inside.any():
            raise DomainError(
                "impossible-no-cell",
                f"The bounds of a rule on {name!r} contain no cell.",
                f"The values of {name!r} are {attribute.own_values[0]} to {attribute.own_values[-1]}.",
                "Correct the bounds.",
                NO_DOMAIN,
                place=name,
            )
        chosen[: len(inside)] = inside
    return chosen


def _spans(attribute: Attribute) -> tuple[Floats, Floats] | None:
    """Return the numbers x of each cell as start ≤ x < end; None for cells that are no numbers."""
    declared = attribute.declared()
    if "cuts" in declared:
        edges = np.array([-math.inf, *declared["cuts"], math.inf])
        return edges[:-1], edges[1:]
    if "clip" in declared:
        values = np.array(attribute.own_values, dtype=np.float64)
        starts, ends = values.copy(), np.nextafter(values, math.inf)
        if declared["clip"]:
            starts[0], ends[-1] = -math.inf, math.inf
        return starts, ends
    return None


def choose(names: Sequence[object]) -> str:
    """Return the advice to use one of some names or values."""
    if len(names) <= MAX_NAMED:
        return f"Use one of {[*names]}."
    return f"Use one of these {len(names):,}: {names[0]!r} to {names[-1]!r}."


def _example(attribute: Attribute) -> str:
    """Return a condition that holds for the first values of an attribute, in the form of TOML."""
    declared, values = attribute.declared(), list(attribute.own_values[:2])
    if "cuts" in declared:
        return f"{{ below = {declared['cuts'][0]:.15g} }}"
    if "clip" in declared:
        return f"{{ at_most = {values[0]} }}"
    return json.dumps(values, ensure_ascii=False) if isinstance(values[0], str) else f"{{ values = {values} }}"


def impossible_cells(domain: Attributes, rules: Sequence[Rule]) -> dict[str, JointAxis]:
    """Return the impossible combinations of each rule, by a name for operators: "impossible 1 (a, b)".

    Args:
        domain: The attributes.
        rules: The rules, numbered by kind.
    """
    excluded, numbers = {}, Multiset[str]()
    for rule in rules:
        kind, ruled = "impossible" if isinstance(rule, ImpossibleBox) else "possible", rule.ruled_cells(domain)
        numbers[kind] += 1
        cells = tuple(map(tuple, np.argwhere(~ruled.possible).tolist()))
        excluded[f"{kind} {numbers[kind]} ({', '.join(ruled.names)})"] = JointAxis(ruled.names, cells)
    return excluded
