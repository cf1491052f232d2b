"""The domain of a publication: named attributes and their values, a public fact that the data must fit.

The kernel sees its axes alone (:class:`fitnoise.kernel.domain.Domain`). Labels stay here.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self, final

from fitnoise.display import HtmlDisplay
from fitnoise.errors import DomainError
from fitnoise.kernel.domain import Domain as AxisDomain
from fitnoise.kernel.domain import JointAxis, unknown_attribute
from fitnoise.kernel.immutable import FixedMapping
from fitnoise.request.arguments import checked
from fitnoise.request.attributes import Attribute
from fitnoise.request.impossible_rules import (
    NO_DOMAIN,
    PossibleList,
    Rule,
    RuledCells,
    box_from,
    connected_cells,
    impossible_cells,
    list_from,
)

RESERVED = (
    "value",
    "std_error",
    "moe",
    "biased_value",
    "simulated_rmse",
    "unbiased_value",
    "synthetic_records",
)
"""Column names of a released table that no attribute may take."""

QUANTILE = "quantile"
"""The column that names each of several quantiles by its part of the records."""

DERIVED = ("low", "high", "told", "simulated_bias", "reliability", QUANTILE)
"""Column names of tables made of a release: intervals, simulated bias, reliability, parts. No attribute may take them.
"""


@final
@dataclass(frozen=True, init=False)
class Domain(Mapping[str, Attribute], HtmlDisplay):
    """Named attributes, in order: `Domain(state=Categorical(codes), age=Ordered(0, 85))`.

    A mapping may be given instead, for names that are not Python identifiers. Levels of a hierarchy can be looked up by
    name, as attributes can. A record has one cell of the hierarchy, so iteration yields the hierarchy and not its
    levels.

    Raises:
        DomainError: There are no attributes, or two names differ at most in case.
        DomainError: A name is empty, reserved (`RESERVED`, `DERIVED`), or holds a line break, a tab or a double quote.
        DomainError: An attribute has the name of a further column of another (`Attribute.further_columns`).
        DomainError: A value is not an attribute, or has a coding of a class that no counter knows.
        DomainError: The classes of an amount do not fit the attribute on which its range depends (`Amount`).
    """

    attributes: tuple[tuple[str, Attribute], ...]
    rules: tuple[Rule, ...] = field(init=False)
    """The rules about cells in which no record can be (:meth:`without`, :meth:`only`)."""
    axes: AxisDomain = field(init=False, repr=False, compare=False)
    """The columns and their cells, without labels: the domain as counting, prices and the ledger know it.

    In a plan it has joint axes, too (:meth:`with_joint_axes`).
    """
    _by_name: Mapping[str, Attribute] = field(init=False, repr=False, compare=False)

    @checked(DomainError, "Nothing was made.", "attributes")
    def __init__(self, attributes: Mapping[str, Attribute] | None = None, /, **by_name: Attribute) -> None:
        # Copied first: a mapping could answer otherwise after it was checked. Names of NumPy become texts of Python.
        by_mapping = {str(name) if isinstance(name, str) else name: a for name, a in dict(attributes or {}).items()}
        both = set(by_mapping) & set(by_name)
        if both:
            raise DomainError(
                "attributes-repeated",
                f"The attributes {sorted(both)} are declared twice.",
                "Each attribute needs a name of its own.",
                "Rename or remove one of the two.",
                "No domain was made.",
            )
        items = by_mapping | by_name
        for home, attribute in items.items():
            if not isinstance(attribute, Attribute):
                raise DomainError(
                    "not-an-attribute",
                    f"The object under {home!r} is of the type {type(attribute).__name__}.",
                    "It must be an attribute: Categorical, Ordered, Binned, Amount or Hierarchy.",
                    "Declare one of these attributes.",
                    "No domain was made.",
                    place=home,
                )
        # Ends by name get their order here: only the domain knows the attribute on whose labels they depend.
        items = {name: a.for_classes(items) for name, a in items.items()}
        axes = AxisDomain({name: a.axis for name, a in items.items()})
        for name in axes.sizes:
            _refuse_reserved(name)
        entries: dict[str, Attribute] = {}
        for name, a in items.items():
            # The last level may have the name of the hierarchy.
            entries |= dict(zip(a.levels, a.views, strict=True)) | {name: a}
        _refuse_further_columns(entries)
        object.__setattr__(self, "attributes", tuple(items.items()))
        object.__setattr__(self, "rules", ())
        object.__setattr__(self, "axes", axes)
        object.__setattr__(self, "_by_name", FixedMapping(entries))

    @checked(DomainError, NO_DOMAIN, "rule")
    def without(self, rule: Mapping[str, Any] | None = None, /, **by_name: Any) -> Self:
        """Return this domain with a rule: no record has these values of several attributes together.

        State only what law or definition excludes. A rule that someone reads off the data reveals something about
        persons, and no noise protects them. Data with a record in an impossible cell are refused before the charge. So
        a release shows every reader that no record was in one. A source can drop such records instead
        (`DataSource.outside_rules`). Then they are left out of every table, and a release shows nothing about them.

        Args:
            rule: The rule as a mapping, for names that are not Python identifiers.
            by_name: For each attribute or level its values, as in `where` of a specification. They are one value, a
                list of texts, {"values": […]}, or bounds such as {"at_most": 14}. The name of a cell for missing values
                is a value; bounds never include such a cell.

        Raises:
            DomainError: The rule has another form, an unknown attribute or value, an amount, one attribute alone, or
                two levels of one hierarchy. Or bounds cut through a cell or contain no cell. Or with all rules, no
                combination with some value is possible, or attributes have more than 262,144 joint cells.

        Example:
            `domain.without(age={"at_most": 14}, marital=["married", "widowed"])`
        """
        return self.with_rules([*self.rules, box_from({**(rule or {}), **by_name})])

    @checked(DomainError, NO_DOMAIN)
    def only(self, combinations: Any) -> Self:
        """Return this domain with a rule: only these combinations of several attributes are possible.

        The warnings of :meth:`without` apply. Combinations with missing values must be in the list, too.

        Args:
            combinations: A CSV file with a column for each attribute or level, with its values. Or a data frame or a
                mapping with such columns.

        Raises:
            DomainError: The list cannot be read, or has an unknown attribute or value, an amount, one attribute alone,
                or two levels of one hierarchy. Or as for :meth:`without`.
        """
        return self.with_rules([*self.rules, list_from(combinations)])

    def with_rules(self, rules: Iterable[Rule]) -> Self:
        """Return this domain with rules about impossible cells in place of its own.

        Args:
            rules: The rules.

        Raises:
            DomainError: As for :meth:`without` and :meth:`only`.
        """
        domain = copy.copy(self)
        vars(domain).pop("ruled_cells", None)
        # boxes first, as in documents
        ordered = sorted(dict.fromkeys(rules), key=lambda rule: isinstance(rule, PossibleList))
        object.__setattr__(domain, "rules", tuple(ordered))
        _ = domain.ruled_cells  # To make them checks the rules.
        excluded = impossible_cells(domain, domain.rules)
        object.__setattr__(domain, "axes", AxisDomain(dict(self.axes.entries), self.axes.joint.values(), excluded))
        return domain

    @cached_property
    def ruled_cells(self) -> tuple[RuledCells, ...]:
        """The possible joint cells by all rules, for each group of attributes that rules connect."""
        return connected_cells(self, self.rules)

    def with_joint_axes(self, joint: Iterable[JointAxis]) -> Self:
        """Return this domain with the given joint axes in place of its own; it compares equal to this one.

        Args:
            joint: The joint axes of a plan, of attributes that read one column.

        Raises:
            DomainError: A joint axis does not fit the attributes.
        """
        domain = copy.copy(self)
        object.__setattr__(domain, "axes", AxisDomain(dict(self.axes.entries), joint, self.axes.rules))
        return domain

    def __getitem__(self, name: str) -> Attribute:
        if name not in self._by_name:
            raise unknown_attribute(name, self._by_name)
        return self._by_name[name]

    def get(self, name: object, default: Any = None, /) -> Any:
        """Return the attribute or level of a name, or the default without one.

        Args:
            name: The name of an attribute or a level; anything else gives the default.
            default: The result for an unknown name.
        """
        # `Mapping.get` would expect a KeyError for an unknown name, not a DomainError.
        return self._by_name[name] if isinstance(name, str) and name in self._by_name else default

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def __iter__(self) -> Iterator[str]:
        return (key for key, _ in self.attributes)

    def __len__(self) -> int:
        return len(self.attributes)

    @property
    def sizes(self) -> Mapping[str, int]:
        """The number of cells of all that a design may count by: attributes, levels, shares of levels, joint axes.

        The share "county in state" exists where all states have equally many counties. It is the position of a record's
        county in its state, 0 for the first. State and share determine the county.
        """
        return self.axes.sizes

    @property
    def steps(self) -> Mapping[str, tuple[int, ...]]:
        """The number of steps of every amount from each knot to the next; the knots are its first cells."""
        return self.axes.steps

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of cells per attribute."""
        return self.axes.shape

    @property
    def size(self) -> int:
        """The number of cells of the domain, Π sizes."""
        return self.axes.size

    def drops(self, by_default: bool) -> tuple[str, ...]:
        """Return the names of the attributes for whose values records may be left out of all tables.

        Args:
            by_default: True if the data source leaves out records outside the domain.
        """
        return self.axes.drops(by_default)

    def cells(self, record: Mapping[str, object]) -> dict[str, int | None]:
        """Return the cell of a record along every attribute; counters are tested against this.

        Args:
            record: The value in each column; a column that it lacks is a missing value.

        Returns:
            The results of :meth:`Attribute.cell`, by attribute: `None` outside the domain. For an amount with a range
            by another attribute, the step in the range of the record's cell there. It is `None` if the record has no
            cell there.
        """
        return self.axes.cells(record)

    def column(self, name: str) -> str:
        """Return the column of the data that holds this attribute.

        Args:
            name: The name of an attribute, a level or a share (`county in state`).

        Raises:
            DomainError: There is no such attribute.
        """
        return self.axes.column(name)

    def attribute_of(self, name: str) -> str:
        """Return the attribute to which a level or a share belongs; for the name of an attribute, this name.

        Args:
            name: The name of an attribute, a level or a share (`county in state`).

        Raises:
            DomainError: There is no such attribute.
        """
        return self.axes.attribute_of(name)

    def depth(self, name: str) -> int:
        """Return the depth of a level in its hierarchy, 0 at the top.

        A share has the depth of its lower level, and a hierarchy that of its leaves.

        Args:
            name: The name of an attribute, a level or a share (`county in state`). The result is 0 without a hierarchy.

        Raises:
            DomainError: There is no such attribute.
        """
        return self.axes.depth(name)


def _refuse_reserved(name: str) -> None:
    """Raise DomainError for the name of a column that every released table has, or a table made from a release."""
    if name.lower() in RESERVED:
        raise DomainError(
            "attribute-name-reserved",
            f"An attribute is named {name!r}.",
            "Released tables can have a column of this name.",
            "Rename the attribute.",
            "No domain was made.",
            place=name,
        )
    if name.lower() in DERIVED:
        raise DomainError(
            "attribute-name-derived",
            f"An attribute is named {name!r}.",
            "Tables made from a release have a column of this name.",
            "Rename the attribute.",
            "No domain was made.",
            place=name,
        )


def _refuse_further_columns(attributes: Mapping[str, Attribute]) -> None:
    """Raise DomainError if an attribute has the name of a further column of another."""
    names = {name.lower(): name for name in attributes}
    for home, attribute in attributes.items():
        for ending in attribute.further_columns:
            column = f"{home}_{ending}"
            if column.lower() in names:
                raise DomainError(
                    "attribute-name-of-further-column",
                    f"An attribute is named {names[column.lower()]!r}, and another {home!r}.",
                    f"Released tables show {home!r} in the columns {home!r} and {column!r}.",
                    "Rename one of the two attributes.",
                    "No domain was made.",
                    place=names[column.lower()],
                )
