"""The unit of protection and the public facts about the data.

**Purpose.** Every promise of a release refers to these terms: the privacy unit, the neighbour relation, the data source
and the account.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import math
import reprlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from typing import Any, Final, NamedTuple, Protocol, Self, final

from fitnoise.errors import LedgerError, SpecError
from fitnoise.kernel.arrays import Indices
from fitnoise.kernel.checks import are_confusable, is_digest, is_name
from fitnoise.kernel.conditions import Condition, conditions

MAX_RECORDS_PER_UNIT = 10**12
"""The largest number of records in one unit. Its square must stay within floating point."""


SHARES_PER_RECORD: Final = 2**20
"""The number of equal parts of a record, where shares are counted. A share is a whole number of parts."""


_DIGITS_SHOWN: Final = 12


class Neighbours(StrEnum):
    """The neighbour relation of two databases, for a unit that holds one record.

    With x the vector of counts and e_i its i-th unit vector:

    - `ADD_OR_REMOVE_ONE`: x − x' = ±e_i. The presence of a record is protected.
    - `REPLACE_ONE`: x − x' = e_i − e_j. The content of a record is protected; the number of records is public.
    """

    ADD_OR_REMOVE_ONE = "add-or-remove-one"
    REPLACE_ONE = "replace-one"


class CountBasis(StrEnum):
    """The rule that decides how the records of one unit count.

    RECORDS: Each record counts as one, up to a limit for each unit.
    SHARES: All records of a unit count, in equal parts. Of k records, each counts ⌊s/k⌋/s, for s =
    `SHARES_PER_RECORD`. The records of one unit count as one record at most.
    """

    RECORDS = "records"
    SHARES = "shares"


class Privacy(StrEnum):
    """The privacy guarantee of every protected unit.

    ZCDP: ρ-zero-concentrated differential privacy, by discrete Gaussian noise.
    PURE: ε-differential privacy without any δ, by discrete Laplace noise.
    AUTO: Under a budget, the one with smaller errors: PURE at its ε, or ZCDP at its (ε, δ). Without a budget, the one
    that meets the targets at the smaller ε. For ZCDP this is ε at δ. Only a request uses AUTO.
    """

    ZCDP = "zcdp"
    PURE = "pure"
    AUTO = "auto"


@final
class Pattern(NamedTuple):
    """The attribute values that records of one unit share, and those in which they differ, by cells of the domain.

    once_per: At most one record lies in each joint cell of these attributes.
    per_value: Pairs of an attribute and the largest number of records in each of its cells.
    separation: Pairs of an attribute and the smallest distance, in cells, of any two records along it.
    fixed: All records lie in one cell of each of these attributes.
    """

    once_per: tuple[str, ...] = ()
    per_value: tuple[tuple[str, int], ...] = ()
    separation: tuple[tuple[str, int], ...] = ()
    fixed: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return any(map(len, self))

    @property
    def rules(self) -> dict[str, tuple[tuple[Any, ...], ...]]:
        """The attributes of each rule, with their numbers if it has some."""
        pairs = zip(self._fields, self, strict=True)
        return {what: tuple(x if isinstance(x, tuple) else (x,) for x in stated) for what, stated in pairs}

    @property
    def attributes_by_rule(self) -> dict[str, tuple[str, ...]]:
        """The attributes that each rule of the pattern names."""
        return {what: tuple(x[0] for x in stated) for what, stated in self.rules.items()}

    @property
    def names(self) -> frozenset[str]:
        """All attributes that the pattern names."""
        return frozenset(itertools.chain(*self.attributes_by_rule.values()))

    @property
    def caps(self) -> tuple[tuple[tuple[str, ...], int], ...]:
        """Groups of attributes, each with the largest number of records in one of their joint cells.

        A group leaves out the attributes of `fixed`, because they do not distinguish records of one unit.
        """
        once = ((self.once_per, 1),) if self.once_per else ()
        # Records at a distance of at least one cell lie in different cells.
        caps = (*once, *(((a,), limit) for a, limit in self.per_value), *(((a,), 1) for a, _ in self.separation))
        return tuple((tuple(a for a in names if a not in self.fixed), limit) for names, limit in caps)

    @property
    def describe(self) -> str:
        """The pattern as a part of the unit's description, such as ', once per "month"'; empty without a pattern."""
        once = f", once per {_quoted(self.once_per)}" if self.once_per else ""
        each = "".join(f', {n} for each "{a}"' for a, n in self.per_value)
        separated = "".join(f', separated by {n} in "{a}"' for a, n in self.separation)
        fixed = f", equal in {_quoted(self.fixed)}" if self.fixed else ""
        return once + each + separated + fixed


NO_PATTERN: Final = Pattern()
"""The empty pattern, which allows any records of one unit."""


@final
class RecordBound(NamedTuple):
    """The bound on the records of one unit that the counting enforces.

    The column `id` identifies the unit of each record. `max_records` is the largest number of counted records of a
    unit. Where it is `None`, all records count, in equal shares of one record (`CountBasis.SHARES`). The pattern
    decides which records can count jointly.

    merge: Amounts. Records of a unit that agree in everything else are first merged into one, with these amounts added
        up.
    """

    id: str
    max_records: int | None
    pattern: Pattern = NO_PATTERN
    merge: tuple[str, ...] = ()


@dataclass(frozen=True)
class PrivacyUnit:
    """The unit of protection, to which every promise of the release refers.

    Attributes:
        name: The name of one unit, in the singular ("record", "person", "household").
        max_records: The largest number of records of one unit that are counted; at least 1. Without an `id` the
            publisher promises it, and fitnoise does not check it on the data. A unit with more records is protected
            less.
        neighbours: The change of one unit that must stay hidden.
        id: The column that identifies the unit of a record. With an `id` fitnoise enforces `max_records`: it chooses at
            most that many records of each unit, among the unit's own records (:mod:`fitnoise.kernel.counting.persons`).
        once_per: Attributes of the domain, such as the month. At most one record of a unit lies in each of their joint
            cells. This and the following rules are promised or enforced as `max_records` is.
        per_value: The largest number of records of a unit in each cell of an attribute: {"month": 3}.
        separation: The smallest distance, in cells, of any two records of one unit along an ordered attribute.
        fixed: Attributes in which all records of one unit agree, such as the year of birth.
        count: "records" (default) or "shares". With shares, all records of a unit with an id count, each as an equal
            part of one, so that units are counted. `max_records` is 1 then, and the unit has no pattern.
        sum_within_unit: Amounts of the domain to add up, such as the transactions of a customer in one branch. Records
            of one unit with an id that agree in everything else become one record, before any are chosen. Each amount
            counts as a whole number of steps from zero, cut to ±2^31. The sum is then cut to the range of the amount.
        within: Attributes that a record and its replacement share, under replace-one neighbours. No record is
            added or removed. That a unit is counted, and its values of these attributes, are then not protected.

    The pattern, `sum_within_unit` and `within` are held in alphabetical order, for any order given. `per_value` and
    `separation` are held as pairs.

    Raises:
        SpecError: The name is empty, padded or not printable.
        SpecError: `max_records` is not a whole number from 1 to 10^12, or `neighbours` is not a `Neighbours`.
        SpecError: `id` is no name of a column, or the unit with an id is called a record or has " (by '" in its name.
        SpecError: `count` is neither "records" nor "shares".
        SpecError: Shares are counted without an id, with `max_records` above 1, or with a pattern.
        SpecError: `once_per`, `fixed`, `sum_within_unit` or `within` is not a list of different names of attributes.
        SpecError: `per_value` or `separation` gives no whole numbers from 1 to 10^12 for such names.
        SpecError: The unit is a record and has a pattern.
        SpecError: Amounts are added up without an id, or for shares.
        SpecError: `within` is set with an id, a pattern or other neighbours than replace-one.

    **Guarantees**

    - Equal units compare equal and hash equal; a unit never changes after it is made.
    - The publisher promises that an id stands for one unit: a person with two ids counts as two units.
    - With `sum_within_unit`, the merged records of a unit depend only on the records of that unit. Adding or removing a
      unit moves the counts by at most `max_records` records, each with an amount within its range. The price is
      therefore the price without `sum_within_unit`.
    """

    name: str = "record"
    max_records: int = 1
    neighbours: Neighbours = Neighbours.ADD_OR_REMOVE_ONE
    id: str | None = None
    once_per: tuple[str, ...] = ()
    per_value: Mapping[str, int] | tuple[tuple[str, int], ...] = ()
    separation: Mapping[str, int] | tuple[tuple[str, int], ...] = ()
    fixed: tuple[str, ...] = ()
    count: CountBasis | str = CountBasis.RECORDS
    sum_within_unit: tuple[str, ...] = ()
    within: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not is_name(self.name):
            raise SpecError(
                "unit-name-invalid",
                f"The name of the privacy unit is {self.name!r}.",
                "It must be printable, without spaces around it, and in composed Unicode (NFC).",
                'Give such a name, for example "person".',
                "Nothing was planned.",
                place="privacy.unit",
            )
        if not _is_count(self.max_records):
            raise SpecError(
                "max-records-per-unit-invalid",
                f"The privacy unit has at most {self.max_records!r} records.",
                "This bound must be a whole number from 1 to 10^12.",
                "Declare the largest number of records that one unit can have.",
                "Nothing was planned.",
                place="privacy.max_records",
            )
        if type(self.neighbours) is not Neighbours:  # the equal string is refused: others compare by identity
            choices = " or ".join(f"Neighbours.{choice.name}" for choice in Neighbours)
            raise SpecError(
                "neighbours-invalid",
                f"The neighbour relation is {self.neighbours!r}.",
                f"It must be {choices}.",
                "Choose one of the two relations.",
                "Nothing was planned.",
                place="privacy.neighbours",
            )
        self._check_pattern()
        self._check_merge()
        self._check_shares()
        if self.id is None:
            return
        if not is_name(self.id):
            raise SpecError(
                "id-invalid",
                f"The id of the privacy unit is {self.id!r}.",
                "It must be the printable name of a column, without spaces around it, in composed Unicode (NFC).",
                "Give the name of such a column.",
                "Nothing was planned.",
                place="privacy.id",
            )
        # `account` appends the id to the name as " (by 'id')": a name with these characters could imitate it.
        if are_confusable(self.name, "record") or " (by '" in self.name:
            raise SpecError(
                "id-needs-unit-name",
                f"The id {self.id!r} is set, and the privacy unit is named {self.name!r}.",
                "An id stands for a unit other than a record, and the unit's name may not contain \" (by '\".",
                'Name the unit that an id stands for, such as unit = "person".',
                "Nothing was planned.",
                place="privacy.unit",
            )

    def _check_pattern(self) -> None:
        for what in ("once_per", "fixed", "sum_within_unit", "within"):
            value = getattr(self, what)
            # A text is refused: it would be taken apart into characters.
            names = tuple(value) if isinstance(value, list | tuple) else (None,)
            if not _attributes(names):
                raise SpecError(
                    "unit-attributes-invalid",
                    f"The value of {what} is {value!r}.",
                    "It must be a list of different, printable names of attributes, in composed Unicode (NFC).",
                    'Write such a list, for example ["month"].',
                    "Nothing was planned.",
                    place=f"privacy.{what}",
                )
            # Sorted, so that units with equal rules compare equal and hash equal, for any order given.
            object.__setattr__(self, what, tuple(sorted(names)))
        for what in ("per_value", "separation"):
            value = getattr(self, what)
            # Held as pairs: a mapping could change after the check, and has no hash.
            pairs = tuple(value.items()) if isinstance(value, Mapping) else value
            good = isinstance(pairs, tuple) and all(isinstance(x, tuple) and len(x) == 2 for x in pairs)
            if not good or not _attributes([a for a, _ in pairs]) or not all(_is_count(n) for _, n in pairs):
                raise SpecError(
                    "unit-limits-invalid",
                    f"The value of {what} is {value!r}.",
                    "It must give names of attributes whole numbers from 1 to 10^12.",
                    'Write such a mapping, for example {"month": 3}.',
                    "Nothing was planned.",
                    place=f"privacy.{what}",
                )
            object.__setattr__(self, what, tuple(sorted(pairs)))
        option = next((what for what, value in self.pattern.attributes_by_rule.items() if value), None)
        if option is not None and are_confusable(self.name, "record"):
            raise SpecError(
                "pattern-needs-unit-name",
                f"The option {option} is set, and the privacy unit is named {self.name!r}.",
                f"The option {option} limits the records of a unit that has several.",
                'Name that unit, such as unit = "person".',
                "Nothing was planned.",
                place="privacy.unit",
            )

        if self.within and (option or self.id is not None or self.neighbours is not Neighbours.REPLACE_ONE):
            raise SpecError(
                "within-needs-replace-one",
                "The option within is set together with an id, with a rule for the records of a unit, or with other "
                "neighbours than replace-one.",
                "Each record is replaced by one that agrees in these attributes, and fitnoise counts all records.",
                'Set neighbours = "replace-one" without these options, or remove within.',
                "Nothing was planned.",
                place="privacy.within",
            )

    def _check_merge(self) -> None:
        if self.sum_within_unit and self.id is None:
            raise SpecError(
                "sum-within-unit-needs-id",
                "The key sum_within_unit is set, and id is not.",
                "Without an id, fitnoise does not know which records belong to one unit.",
                "Name the id column (id = …), or remove sum_within_unit.",
                "Nothing was planned.",
                place="privacy.sum_within_unit",
            )

    def _check_shares(self) -> None:
        try:
            object.__setattr__(self, "count", CountBasis(self.count))
        except ValueError:
            raise SpecError(
                "count-invalid",
                f"The value of count is {self.count!r}.",
                "It must be 'records' or 'shares'.",
                "Choose one of the two.",
                "Nothing was planned.",
                place="privacy.count",
            ) from None
        if self.parts == 1:
            return
        if self.id is None:
            raise SpecError(
                "shares-need-id",
                "The value of count is 'shares', and id is not set.",
                "Without an id, fitnoise does not know which records belong to one unit.",
                "Name the id column (id = …), or count records.",
                "Nothing was planned.",
                place="privacy.count",
            )
        option = next((what for what, value in self.pattern.attributes_by_rule.items() if value), None)
        if self.max_records != 1 or option is not None:
            what = option or "max_records"
            raise SpecError(
                "shares-count-all-records",
                f"The value of count is 'shares', and {what} is set.",
                f"Shares count all records of one {self.name}, and {what} would leave some out.",
                f"Remove {what}, or count records.",
                "Nothing was planned.",
                place=f"privacy.{what}",
            )
        if self.sum_within_unit:
            raise SpecError(
                "shares-with-sum-within-unit",
                "The value of count is 'shares', and sum_within_unit is set.",
                "No amounts are summed over shares.",
                "Remove sum_within_unit, or count records.",
                "Nothing was planned.",
                place="privacy.sum_within_unit",
            )

    @property
    def parts(self) -> int:
        """The number of parts that a record is counted in: 1, or SHARES_PER_RECORD where shares are counted."""
        return SHARES_PER_RECORD if self.count is CountBasis.SHARES else 1

    @property
    def pattern(self) -> Pattern:
        """The pattern of the records of one unit."""
        each, separation = (tuple(dict(value).items()) for value in (self.per_value, self.separation))
        return Pattern(self.once_per, each, separation, self.fixed)

    @property
    def promised(self) -> list[str]:
        """The attributes whose cells decide what is promised: those of the pattern and of `within`."""
        return sorted({*self.pattern.names, *self.within})

    @property
    def relation(self) -> str:
        """The neighbour relation in words, such as 'replace-one within "state"'."""
        return f"{self.neighbours} within {_quoted(self.within)}" if self.within else str(self.neighbours)

    def describe(self) -> str:
        """Return one line for a report: "one person (at most 3 records), add-or-remove-one".

        **Guarantees**

        - The line states the bound on records, except for the unit "record" with one record, whose name states it.
        - The line names the column that enforces the bound, if there is one.
        """
        if self.name == "record" and self.max_records == 1:
            return f"one record, {self.relation}"
        if self.parts > 1:
            return f"one {self.name} (all records, in shares of one, by column '{self.id}'), {self.neighbours}"
        plural = "record" if self.max_records == 1 else "records"
        how = "" if self.id is None else f", enforced by column '{self.id}'"
        how += f", with {_quoted(self.sum_within_unit)} added up" if self.sum_within_unit else ""
        return f"one {self.name} (at most {self.max_records} {plural}{self.pattern.describe}{how}), {self.relation}"

    __str__ = describe

    @property
    def account(self) -> str:
        """The printed sentence of the accounts to which releases of this unit are charged (:class:`Account`).

        With an id it is "one person (by 'person_id'), add-or-remove-one", for any number of counted records and any
        pattern. Releases of one record each and of twelve protect the same persons, and add up in one account. A bound
        without an id is part of the account. A unit that breaks the bound is another unit. It costs as much as any unit
        with its number of records.
        """
        return self.describe() if self.id is None else f"one {self.name} (by '{self.id}'), {self.neighbours}"

    @property
    def bound(self) -> RecordBound | None:
        """The bound on the records of one unit that the counting enforces; None without an id."""
        if self.id is None:
            return None
        return RecordBound(self.id, self.max_records if self.parts == 1 else None, self.pattern, self.sum_within_unit)

    @property
    def is_record(self) -> bool:
        """True if the unit is one record, so that no bound on its records has to hold."""
        return (self.name, self.max_records) == ("record", 1)

    def cost_factor(self) -> int:
        """Return the ratio of Δ² = 2ρ of one unit to that of one record: g², with g = `max_records`.

        A mechanism adds Gaussian noise to linear functions of the counts x. Between databases that differ by v its
        squared distance is q(v)² = vᵀ X v, for some positive semidefinite X. So q is a seminorm.

        *Add or remove one.* Δ² of one record is max_i q(e_i)². A unit with at most g records adds or removes v =
        ±(e_i1 + … + e_im), m ≤ g. So q(v) ≤ m max_i q(e_i) ≤ g max_i q(e_i). All g records may fall in the cell of the
        maximum, v = g e_i: the bound is attained, and Δ² grows by exactly g².

        *Replace one.* Δ² of one record is max_ij q(e_i − e_j)². Each of the m ≤ g records of the unit takes another
        value, so v is a sum of m differences e_i − e_j. So q(v) ≤ g max_ij q(e_i − e_j), attained when all g move
        between the worst two cells. Again Δ² grows by exactly g². A record can also be added or removed, if the unit
        changes its number of records or some are dropped. Then g² multiplies the larger of this maximum and max_i
        q(e_i)²: `Adjacency.step_relations` names both relations.

        **Guarantees**

        - The result is a whole number ≥ 1, equal for both relations, and no smaller factor is safe.
        """
        return self.max_records**2


def _quoted(names: Sequence[str]) -> str:
    """Return names in quotes, with "and" between them."""
    return " and ".join(f'"{name}"' for name in names)


def _attributes(names: Sequence[object]) -> bool:
    """Return True if all names are names of attributes, and no name is repeated."""
    # `Pattern.describe` quotes the names: with a quote in a name, two patterns could have one description.
    return all(isinstance(a, str) and is_name(a) and '"' not in a for a in names) and len(set(names)) == len(names)


def _is_count(n: object) -> bool:
    # The exact type: True is an `int` in Python, and no number of records.
    return type(n) is int and 1 <= n <= MAX_RECORDS_PER_UNIT


class Region(StrEnum):
    """The set of allowed count vectors x, for n records.

    AT_MOST: x ≥ 0 and Σ x ≤ n.
    EXACTLY: x ≥ 0 and Σ x = n.
    HULL: Σ |x| ≤ n, which also allows negative counts.
    """

    AT_MOST = "at-most"
    EXACTLY = "exactly"
    HULL = "hull"


class DomainShape(Protocol):
    """The known facts of a domain: everything by which a design may count."""

    @property
    def sizes(self) -> Mapping[str, int]:
        """Number of cells of attributes, of their levels and of shares of these."""

    def attribute_of(self, name: str, /) -> str:
        """Return the attribute to which this level or share belongs; an attribute itself."""

    def max_cells_sharing(self, name: str, axes: Collection[str], /) -> int:
        """Return the largest number of cells of an attribute that lie in one place along all of these axes."""

    def columns(self, axis: str, /) -> Mapping[str, Indices]:
        """Return the position along each attribute of a joint axis, for every cell of an axis that determines it."""


@final
@dataclass(frozen=True)
class Adjacency:
    """The relation of neighbouring databases: the changes of one protected unit, which a design prices.

    unit: The unit of protection.
    drops: True if records may be left out of all tables (`Domain.adjacency`), so that one can be added or removed.
    grid: The grid of the domain. Without one, each name is an attribute of its own.

    **Guarantees**
        * A change of the unit is a sum of at most `records` steps of one record each. Every step is a neighbour step of
          one of the relations in `step_relations`.
        * Where shares of records are counted, the change is a mean of such steps and of the zero step. The added shares
          are at most one record in all, and so are the removed shares. A price that is convex in the change, as the
          price of linear answers, is then at most the price of the costliest step.
        * The added records keep to `pattern`, and so do the removed ones. Under add-or-remove-one neighbours, all
          records of a unit are added, or all are removed. Under replace-one neighbours, some are removed and others are
          added.
        * A record and its replacement agree in the attributes of `unit.within`. A design may ignore this: it then
          prices more neighbours.
    """

    unit: PrivacyUnit = PrivacyUnit()
    drops: bool = False
    grid: DomainShape | None = field(default=None, repr=False, compare=False)

    @property
    def pattern(self) -> Pattern:
        """The pattern of the records of one unit; empty for a unit with one record, or without a known pattern."""
        return self.unit.pattern if self.records > 1 else NO_PATTERN

    @property
    def without_pattern(self) -> Adjacency:
        """This relation without the pattern of the unit; it has no fewer neighbours."""
        return replace(self, unit=replace(self.unit, once_per=(), per_value=(), separation=(), fixed=()))

    @cached_property
    def records(self) -> int:
        """The largest number of records of one unit, g: at most the number for which its pattern has cells."""
        pattern, limits = self.unit.pattern, [self.unit.max_records]
        if self.grid is not None:
            sizes = self.grid.sizes
            limits += [n * math.prod(sizes[a] for a in names) for names, n in pattern.caps]
            # Of any n consecutive cells, at most one has a record.
            limits += [-(-sizes[a] // n) for a, n in pattern.separation if a not in pattern.fixed]
        return min(limits)

    def shared_axes(self, axes: Iterable[str], names: Collection[str]) -> tuple[list[str], int | None]:
        """Return the axes along which attributes lie, and the largest number of their joint cells in one place.

        A place is one position along each of the returned axes.

        Args:
            axes: The names of the axes of a design: attributes, their levels and shares of these.
            names: The names of attributes, for example those of one rule of the pattern.

        Returns:
            The axes that belong to one of `names`, in the order of `axes`; and the number. It is `None` where the grid
            is unknown and one of the attributes is not itself an axis.
        """
        axes = list(axes)
        if self.grid is None:
            # An attribute that is an axis has one cell in each place; of any other, the number of cells is unknown.
            there = [a for a in axes if a in names]
            return there, 1 if len(there) == len(set(names)) else None
        homes = {a: self.grid.attribute_of(a) for a in axes}
        cells_shared = (self.grid.max_cells_sharing(name, [a for a in axes if homes[a] == name]) for name in names)
        return [a for a in axes if homes[a] in names], math.prod(cells_shared)

    @property
    def step_relations(self) -> tuple[Neighbours, ...]:
        """The relations of which a step of one record can be.

        Under replace-one neighbours, a record can also be added or removed in three cases. Records may be left out
        (`drops`), a unit may have fewer records than g, or an id identifies the unit. With `within`, each record
        is replaced by one, so only left-out records matter.
        """
        relation = self.unit.neighbours
        # With an id, a person with more or fewer records than before has another number of counted records.
        varies = self.drops or (not self.unit.within and (self.unit.max_records > 1 or self.unit.id is not None))
        return (relation, Neighbours.ADD_OR_REMOVE_ONE) if varies and not self.by_cell else (relation,)

    def for_unit(self, unit: PrivacyUnit, *promised: PrivacyUnit) -> Adjacency | None:
        """Return the relation in which data counted for this unit are neighbours for another; `None` without a bound.

        Args:
            unit: The unit whose records are added, removed or changed.
            promised: Further units whose number of records in these data the publisher states.

        Units with equal names are the same unit, unless their ids differ.

        * If the counting enforces the bound of the other unit, at most that number of its records changes.
        * If the counting enforces the bound of this unit only, one more record may push out another of the same person.
          Under two caps, a separation or a fixed attribute it may push out all of them. Each of the other's records
          is then added, is removed or replaces one. Where shares are counted, one record changes all records of its
          person. These changes are jointly a mean of such replacements.
        * If the counting enforces no bound, the numbers are promises. For a unit by an id only the promises of other
          units count.
        * Data of a unit with `within` come with totals by these attributes that are published without protection. They
          bound nothing for a unit whose records can change these totals.

        A pattern is enforced with the bound, or else it is the promise of the other unit. Only the plan of that unit
        knows the attributes that it names, so the result then has no `grid`.
        """
        same = are_confusable(unit.name, self.unit.name) and unit.id in {None, self.unit.id}
        if self.unit.id is not None and same:
            # The counting enforces its own bound, for any number that the other unit states.
            return replace(self, unit=replace(self.unit, name=unit.name, neighbours=unit.neighbours))
        declared = [u.max_records for u in (self.unit, *promised) if u.id is None and are_confusable(unit.name, u.name)]
        # Of several numbers stated for one unit, the largest is the safe one; without any there is no bound.
        records = max(declared + ([unit.max_records] if unit.id is None else []), default=MAX_RECORDS_PER_UNIT + 1)
        if self.unit.id is not None:
            # A record that is replaced, with its id, affects two persons.
            records *= 1 if unit.neighbours is Neighbours.ADD_OR_REMOVE_ONE else 2
            pattern = self.unit.pattern
            # Under two caps, a separation or a fixed attribute, one record may push out all counted records of its
            # person, for equally many others.
            records *= 1 if len(pattern.caps) <= 1 and not pattern.separation and not pattern.fixed else self.records
            # A record that is pushed out, and the one that is counted instead, can differ in all attributes.
            unit = replace(unit, neighbours=Neighbours.REPLACE_ONE, within=())
        if records > MAX_RECORDS_PER_UNIT or not {*self.unit.within} <= {*unit.within}:
            return None
        unit = replace(unit, max_records=records, id=None, count=CountBasis.RECORDS, sum_within_unit=())
        return Adjacency(unit, drops=self.drops or self.unit.id is not None)

    def changes(self, adjacency: Adjacency) -> int | None:
        """Return a number of consecutive changes of this unit that is enough to make any one change of the other unit.

        Let g be `records` of this unit, and g' that of the other. A change of the other is at most g' steps of one
        record. Where this unit can take each of these steps, it takes g at a time: ⌈g'/g⌉ changes. Where this unit has
        a pattern, it takes one step at a time: g' changes. Where this unit can add and remove records but not replace
        them, the number is twice as large. Where it can only replace records and the other's can be added or removed,
        the result is `None`. So it is where this unit has attributes `within` that the other lacks.

        A release that costs this unit ρ, or pure ε, costs the other at most k²ρ, or kε, for the k returned. ε adds up,
        and for ρ that is group privacy of concentrated differential privacy (Bun and Steinke 2016, Proposition 1.9).
        """
        # The other's records need not keep to this unit's pattern; one record at a time does.
        times = -(-adjacency.records // (1 if self.pattern else self.records))
        if not {*self.unit.within} <= {*adjacency.unit.within}:
            return None
        if set(adjacency.step_relations) <= set(self.step_relations):
            return times
        # To replace records is to remove them and to add the new ones. Records are removed first, so no database in
        # between has more of them than the larger of both. Replacements alone never change the number of records.
        return 2 * times if Neighbours.ADD_OR_REMOVE_ONE in self.step_relations else None

    @property
    def by_cell(self) -> bool:
        """True if the cost of a unit depends on the cells of its own records alone: neighbours add or remove one."""
        return self.unit.neighbours is Neighbours.ADD_OR_REMOVE_ONE

    @property
    def fixes_size(self) -> bool:
        """True if neighbours have equal numbers of records; the number is then public."""
        return self.step_relations == (Neighbours.REPLACE_ONE,)


MAX_RECORDS = 2**40
"""The default public bound on the number of records."""

LARGEST_BOUND = 2**62
"""The largest public bound on the number of records: 64-bit integers hold the sum of that many."""


class OutsideDomain(StrEnum):
    """The action for a record without a cell: its value is missing, not a number, or not in the declared domain."""

    REFUSE = "refuse"
    DROP = "drop"


@final
@dataclass(frozen=True)
class DataSource:
    """The public facts about the data, before they are opened.

    Attributes:
        name: The name of the source.
        table: The table of a database, of Spark or of a DuckDB file, or the sheet of an Excel file. None for other
            data.
        outside_domain: The action for records outside an attribute that states no action itself. Refuse the data
            (default), or leave such records out of every table.
        max_records: A public bound on the number of records. It sets the width of integers at plan time. Data with more
            records are refused in three cases: an array of counts, sums of amounts, and shares of records
            (:meth:`fitnoise.kernel.order.Order.max_records`). Their counts would not be exact. Nothing else compares
            the bound with the data. Measured sums of other such data can wrap modulo 2⁶⁴, which costs accuracy and no
            privacy.
        account: The name under which a ledger sums up charges: one for all sources about the same people, such as the
            quarters of a survey. With None it is the name of the source.
        outside_rules: The action for records in a cell that a rule calls impossible. None (the default) is
            `outside_domain`.
        max_dropped: The largest share, from 0 to 1, of records left out of every table because they are outside the
            domain or have no id. With a larger share, or data that do not hold it (an array of counts), the
            count stops before anything is charged. None (the default) allows any share. Only the operator sees this
            refusal and the number of such records; no publication states them.
        where: The condition on records to be counted, by their own columns: {column: value, values or bounds}. An
            example is {"country": "SI", "year": {"at_least": 2020, "below": 2025}, "kind": ["a", "b"]}. A record must
            meet all of it; a missing value meets nothing. The condition does not change the people that the data
            describe, so the account stays the same.
        format: The forms in which texts of the data are written, such as 1.234,5: a `Format`
            (:mod:`fitnoise.kernel.formats`). None reads texts as `codings` and `dates` state.
        view: The promise "promised" about a view or another query: one record of the unit changes one row of the view.
            Nothing checks this promise. None promises nothing.

    Raises:
        SpecError: One of these values breaks its rule.
    """

    name: str = "default"
    table: str | None = None
    outside_domain: OutsideDomain = OutsideDomain.REFUSE
    max_records: int = MAX_RECORDS
    account: str | None = None
    where: tuple[Condition, ...] | Mapping[str, Any] = ()
    max_dropped: float | None = None
    outside_rules: OutsideDomain | None = None
    format: Any = None
    view: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "where", conditions(self.where))
        limit = self.max_dropped
        if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int | float) or not 0 <= limit <= 1):
            raise SpecError(
                "max-dropped-invalid",
                f"The value of max_dropped is {limit!r}.",
                "It must be a share of the records, from 0 to 1.",
                "Give a share such as 0.01.",
                "Nothing was planned.",
                place="data.max_dropped",
            )
        rules = self.outside_domain if self.outside_rules is None else self.outside_rules
        for name, action in (("outside_domain", self.outside_domain), ("outside_rules", rules)):
            try:
                object.__setattr__(self, name, OutsideDomain(action))
            except ValueError:
                raise SpecError(
                    "outside-domain-invalid",
                    f"The value of {name} is {action!r}.",
                    "It must be 'refuse' or 'drop'.",
                    "Choose one of the two.",
                    "Nothing was planned.",
                    place="data.outside_domain" if name == "outside_domain" else "rules.outside",
                ) from None
        for what, name, key in (("", self.name, "data.source"), ("the account of ", self.population, "data.account")):
            if not is_name(name):
                raise SpecError(
                    "source-name-invalid",
                    f"The name of {what}the data source is {reprlib.repr(name)}.",
                    "The ledger sums charges under this name; it must be printable, without spaces around it, in "
                    "composed Unicode (NFC).",
                    "Give such a name.",
                    "Nothing was planned.",
                    place=key,
                )
        # What equals its default is stored as None, so that both spellings compare equal.
        object.__setattr__(self, "account", None if self.account == self.name else self.account)
        stated = self.outside_rules
        object.__setattr__(self, "outside_rules", None if stated is self.outside_domain else stated)
        if type(self.max_records) is not int or not 1 <= self.max_records <= LARGEST_BOUND:
            raise SpecError(
                "max-records-invalid",
                f"The value of max_records is {self.max_records!r}.",
                "It must be a whole number from 1 to 2^62.",
                "Give a public bound on the number of records.",
                "Nothing was planned.",
                place="data.max_records",
            )

    @property
    def population(self) -> str:
        """The name under which a ledger sums up charges; it stands for the people in the data."""
        return self.name if self.account is None else self.account

    @property
    def drops(self) -> bool:
        """True if records outside the domain are left out, where an attribute states no action."""
        return self.outside_domain is OutsideDomain.DROP

    @property
    def drops_by_rule(self) -> bool:
        """True if records in cells that a rule calls impossible are left out."""
        return (self.outside_rules or self.outside_domain) is OutsideDomain.DROP

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """The conditions that a record must meet to be counted, by column."""
        assert isinstance(self.where, tuple)  # noqa: S101 - made so
        return self.where


@final
@dataclass(frozen=True)
class Account:
    """The protected population and unit that have one balance.

    A promise binds its cells. "Once per month" is promised for the cells that `month` has. It states nothing about
    another attribute of that name. So the account holds, for each attribute of the pattern and of `within`, a digest of
    the rule for its cells. With `within` the digest covers the conditions of the source, too: a record and its
    replacement meet these, and need not meet others.

    Args:
        source: The name of the data source, or of the account that several sources share.
        unit: The privacy unit. For a unit by an id only name, relation and id are kept. Each release itself enforces
            the number of its counted records and their pattern.
        cells: Each attribute of a promised pattern, and of `within`, with the SHA-256 (hex) of the rule for its cells
            (:func:`fitnoise.kernel.domain.cell_key`), in any order.

    Raises:
        LedgerError: The source is not a string, is empty, has spaces around it or an unprintable character.
        LedgerError: The source is not in Unicode NFC: one source spelt in two ways would have two budgets.
        LedgerError: The unit is not a privacy unit.
        LedgerError: The attributes are not those of its pattern and `within`, appear twice, or come without a SHA-256.

    **Guarantees**

    - Two accounts are equal if and only if their sources and their `key` are.
    - `parse` reads the JSON values of `document`, which `key` writes, and nothing else.
    """

    source: str
    unit: PrivacyUnit
    cells: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        if not is_name(self.source):
            raise LedgerError(
                "account-name-invalid",
                f"The name of an account is {reprlib.repr(self.source)}.",
                "It must be printable, not empty, without spaces around it, and in composed Unicode (NFC).",
                "Give such a name.",
                "Nothing was charged.",
            )
        unit = self.unit
        if type(unit) is not PrivacyUnit:
            raise LedgerError(
                "account-without-unit",
                f"The unit of an account is {reprlib.repr(unit)}.",
                "It must be a PrivacyUnit.",
                "Give the unit of a plan (plan.order.unit).",
                "Nothing was charged.",
            )
        if unit.id is not None:
            unit = PrivacyUnit(unit.name, 1, unit.neighbours, unit.id)
        cells = tuple(sorted((a, str(x)) for a, x in self.cells))
        if [a for a, _ in cells] != unit.promised or not all(is_digest(x) for _, x in cells):
            raise LedgerError(
                "account-cells-invalid",
                "The account does not give each attribute of its promise the SHA-256 of its cells, and nothing else.",
                "Attributes of equal names may have other cells.",
                "Use the account of a plan (plan.order.account).",
                "Nothing was charged.",
            )
        object.__setattr__(self, "unit", unit)
        object.__setattr__(self, "cells", cells)

    @property
    def document(self) -> dict[str, Any]:
        """The JSON values that identify the unit; for a pattern also the digests of its cells."""
        unit, cells = self.unit, dict(self.cells)
        document = {"name": unit.name, "neighbours": str(unit.neighbours)}
        if unit.id is not None:
            return document | {"id": unit.id}
        rules = unit.pattern.rules | {"within": tuple((a,) for a in unit.within)}
        lists = {what: [[a, cells[a], *n] for a, *n in stated] for what, stated in rules.items() if stated}
        return document | {"records": unit.max_records} | lists

    @property
    def within(self) -> frozenset[tuple[str, str]]:
        """The attributes in which a record and its replacement agree, each with the digest of its cells."""
        return frozenset(x for x in self.cells if x[0] in self.unit.within)

    @cached_property
    def key(self) -> str:
        """The canonical JSON that identifies the unit within its source: sorted keys, no spaces, ASCII."""
        return _json(self.document)

    @cached_property
    def digits(self) -> str | None:
        """The first 12 hexadecimal digits of a SHA-256 of its cells; None where no pattern is promised."""
        return hashlib.sha256(_json(self.cells).encode("ascii")).hexdigest()[:_DIGITS_SHOWN] if self.cells else None

    @property
    def sentence(self) -> str:
        """The unit in words, for people; where a pattern is promised, with the digits that stand for its cells."""
        return self.unit.account if self.digits is None else f"{self.unit.account} [{self.digits}]"

    @classmethod
    def parse(cls, source: str, document: object) -> Self:
        """Return the account from the output of `document`.

        Args:
            source: The name of the source of the account.
            document: JSON values.

        Raises:
            LedgerError: `document` is not such an output.
        """
        account = None
        with contextlib.suppress(SpecError, LedgerError, TypeError, ValueError, LookupError, AttributeError):
            parts: dict[str, Any] = dict(document)  # type: ignore[call-overload]
            rules = {what: parts[what] for what in (*Pattern._fields, "within") if what in parts}
            stated: dict[str, Any] = {
                what: tuple((a, *n) if n else a for a, _, *n in rows) for what, rows in rules.items()
            }
            relation, max_records = Neighbours(parts["neighbours"]), parts.get("records", 1)
            unit = PrivacyUnit(parts["name"], max_records, relation, parts.get("id"), **stated)
            account = cls(source, unit, tuple({x[0]: x[1] for x in itertools.chain(*rules.values())}.items()))
        # Written again and compared: further keys, and lists in another order, are refused.
        if account is None or account.document != document:
            raise LedgerError(
                "account-document-invalid",
                f"The document {reprlib.repr(document)} does not describe an account.",
                "It must be as fitnoise writes it.",
                "Use the document of an account without changes.",
                "Nothing was charged.",
            )
        return account


def _json(value: object) -> str:
    """Return canonical JSON: sorted keys, no spaces, ASCII."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))
