"""Who is protected, and what is publicly known of the data: the terms every promise is made in."""

from __future__ import annotations

import contextlib
import enum
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
from fitnoise.kernel.checks import is_digest, is_name, look_alike
from fitnoise.kernel.conditions import Condition, conditions

MAX_RECORDS_PER_UNIT = 10**12
"""More records than that in one unit is a mistake, and its square would leave floating point."""


PARTS: Final = 2**20
"""Of so many parts a record is made, where shares of it are counted: shares are whole numbers of them."""


_DIGITS_SHOWN: Final = 12

UNSAID: Final = "how many that leaves out is not said"
"""Of records that are not counted, where no question asks."""


class Neighbours(enum.StrEnum):
    """When two databases count as neighbours, for a unit that holds one record.

    With x the vector of counts and e_i its i-th unit vector:

    - `ADD_OR_REMOVE_ONE`: x − x' = ±e_i. Whether a record is there at all is protected.
    - `REPLACE_ONE`: x − x' = e_i − e_j. What a record says is protected; the number of records is public.
    """

    ADD_OR_REMOVE_ONE = "add-or-remove-one"
    REPLACE_ONE = "replace-one"


class Counted(enum.StrEnum):
    """What is counted of one unit.

    RECORDS: its records, at most so many. SHARES: all of its records, each as an equal part of one: of k records each
    counts ⌊PARTS/k⌋/PARTS, so that together they count as one record at most.
    """

    RECORDS = "records"
    SHARES = "shares"


class Privacy(enum.StrEnum):
    """What is promised of every protected unit.

    ZCDP: ρ-zero-concentrated differential privacy, by discrete Gaussian noise. PURE: ε-differential privacy without any
    δ, by discrete Laplace noise. AUTO: of a request only, whichever is more accurate at (ε, δ).
    """

    ZCDP = "zcdp"
    PURE = "pure"
    AUTO = "auto"


@final
class Pattern(NamedTuple):
    """What records of one unit have in common, and in what they differ, by the cells of attributes of the domain.

    once_per: at most one lies in each of their joint cells. per_value: at most so many in each cell of an attribute.
    separation: along an attribute any two are at least so many cells apart. fixed: all lie in one cell of each.
    """

    once_per: tuple[str, ...] = ()
    per_value: tuple[tuple[str, int], ...] = ()
    separation: tuple[tuple[str, int], ...] = ()
    fixed: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return any(map(len, self))

    @property
    def said(self) -> dict[str, tuple[str, ...]]:
        """Of which attributes each of these speaks."""
        each, far = (tuple(a for a, _ in pairs) for pairs in (self.per_value, self.separation))
        return {"once_per": self.once_per, "per_value": each, "separation": far, "fixed": self.fixed}

    @property
    def names(self) -> frozenset[str]:
        """All attributes that are spoken of."""
        return frozenset(itertools.chain(*self.said.values()))

    @property
    def caps(self) -> tuple[tuple[tuple[str, ...], int], ...]:
        """Attributes, and how many records lie in each of their joint cells at most; what is fixed tells none apart."""
        once = ((self.once_per, 1),) if self.once_per else ()
        every = (*once, *(((a,), most) for a, most in self.per_value), *(((a,), 1) for a, _ in self.separation))
        return tuple((tuple(a for a in names if a not in self.fixed), most) for names, most in every)

    @property
    def words(self) -> str:
        """As it is said of a unit: ', once per "month"'; nothing where there is nothing to say."""
        both = '" and "'
        once = f', once per "{both.join(self.once_per)}"' if self.once_per else ""
        each = "".join(f', {n} for each "{a}"' for a, n in self.per_value)
        far = "".join(f', {n} apart in "{a}"' for a, n in self.separation)
        fixed = f', alike in "{both.join(self.fixed)}"' if self.fixed else ""
        return once + each + far + fixed


ANY: Final = Pattern()
"""Records of one unit may be anything."""


@final
class Bound(NamedTuple):
    """Whose a record is told by a column, the id; how many records of one are counted at most, and which together.

    Where `most` is None all of them are counted, in equal shares of one record (`Counted.SHARES`). merge: amounts;
    those of her records that are alike in all else are one before, with these added up.
    """

    id: str
    most: int | None
    pattern: Pattern = ANY
    merge: tuple[str, ...] = ()


@dataclass(frozen=True)
class PrivacyUnit:
    """Who is protected: the promise the whole release is about.

    Attributes:
        name: What one unit is called, in the singular ("record", "person", "household").
        max_records: At most this many records of one unit are counted. Without an `id` that is the publisher's
            promise; nobody checks it on the data, and a unit with more records is protected less.
        neighbours: Which change of one unit must stay hidden.
        id: The column that says whose a record is. With it `max_records` is enforced: of each unit that many records
            are counted, chosen from its own (:mod:`fitnoise.kernel.counting.persons`).
        once_per: Attributes of the domain: of one unit at most one record lies in each of their joint cells, such as
            one a month. Promised or enforced as `max_records` is, as are the following.
        per_value: Of one unit at most so many records lie in each cell of an attribute: {"month": 3}.
        separation: Along an ordered attribute any two records of one unit are at least so many cells apart.
        fixed: Attributes in which all records of one unit agree, such as the year of birth.
        count: "records" (default), or "shares": of a unit with an id all records are counted, each as an equal part of
            one, so that what is counted are units. `max_records` is 1 then, and nothing is said of what records have in
            common.
        merge: Amounts of the domain that are added up: records of one unit with an id that are alike in all else become
            one, before any are chosen, such as transactions of a customer in one branch. Each amount is a whole number
            of steps from zero, of at most 2^31; what is cut to the range of the amount is the sum.

    What says what records have in common, and `merge`, is held in alphabetical order, whatever the order given,
    `per_value` and `separation` as pairs.

    Raises:
        SpecError: The name is empty, padded or not printable, `max_records` is not a whole number ≥ 1,
            `neighbours` is not a `Neighbours`, `id` names no column, or whose records nobody says; shares are counted
            without an id, or of a bounded number of records; or `once_per`, `fixed` or `merge` is no list of different
            names of attributes, `per_value` or `separation` gives no whole numbers ≥ 1 for such names, or any is said
            of a record; or amounts are added up without an id, or for shares.

    **Guarantees**

    - Equal units compare equal and hash equal; a unit never changes after it is made.
    - That an id stands for one unit is the publisher's promise: who is under two ids is two.
    - What a unit's records become, where amounts are added up, depends on nothing but these. So adding or removing a
      unit moves what at most `max_records` records move, each with an amount within its range: the price is the same.
    """

    name: str = "record"
    max_records: int = 1
    neighbours: Neighbours = Neighbours.ADD_OR_REMOVE_ONE
    id: str | None = None
    once_per: tuple[str, ...] = ()
    per_value: Mapping[str, int] | tuple[tuple[str, int], ...] = ()
    separation: Mapping[str, int] | tuple[tuple[str, int], ...] = ()
    fixed: tuple[str, ...] = ()
    count: Counted | str = Counted.RECORDS
    merge: tuple[str, ...] = ()

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
            choices = " or ".join(f'"{choice}"' for choice in Neighbours)
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
        if look_alike(self.name, "record") or " (by '" in self.name:
            raise SpecError(
                "id-needs-unit-name",
                f"The id {self.id!r} is set, and the privacy unit is named {self.name!r}.",
                "An id stands for a unit other than a record.",
                'Name the unit that an id stands for, such as unit = "person".',
                "Nothing was planned.",
                place="privacy.unit",
            )

    def _check_pattern(self) -> None:
        for what in ("once_per", "fixed", "merge"):
            given = getattr(self, what)
            names = tuple(given) if isinstance(given, list | tuple) else (None,)
            if not _attributes(names):
                raise SpecError(
                    "unit-attributes-invalid",
                    f"The value of {what} is {given!r}.",
                    "It must be a list of different, printable names of attributes, in composed Unicode (NFC).",
                    'Write such a list, for example ["month"].',
                    "Nothing was planned.",
                    place=f"privacy.{what}",
                )
            object.__setattr__(self, what, tuple(sorted(names)))
        for what in ("per_value", "separation"):
            given = getattr(self, what)
            pairs = tuple(given.items()) if isinstance(given, Mapping) else given
            good = isinstance(pairs, tuple) and all(isinstance(x, tuple) and len(x) == 2 for x in pairs)
            if not good or not _attributes([a for a, _ in pairs]) or not all(_is_count(n) for _, n in pairs):
                raise SpecError(
                    "unit-limits-invalid",
                    f"The value of {what} is {given!r}.",
                    "It must give names of attributes whole numbers from 1 to 10^12.",
                    'Write such a mapping, for example {"month": 3}.',
                    "Nothing was planned.",
                    place=f"privacy.{what}",
                )
            object.__setattr__(self, what, tuple(sorted(pairs)))
        said = next((what for what, given in self.pattern.said.items() if given), None)
        if said is not None and look_alike(self.name, "record"):
            raise SpecError(
                "pattern-needs-unit-name",
                f"The option {said} is set, and the privacy unit is named {self.name!r}.",
                f"The option {said} limits the records of a unit that has several.",
                'Name that unit, such as unit = "person".',
                "Nothing was planned.",
                place="privacy.unit",
            )

    def _check_merge(self) -> None:
        if self.merge and self.id is None:
            raise SpecError(
                "merge-needs-id",
                "The option merge is set, and id is not.",
                "Without an id, fitnoise does not know which records belong to one unit.",
                "Name the id column (id = …), or remove merge.",
                "Nothing was planned.",
                place="privacy.merge",
            )

    def _check_shares(self) -> None:
        try:
            object.__setattr__(self, "count", Counted(self.count))
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
        said = next((what for what, given in self.pattern.said.items() if given), None)
        if self.max_records != 1 or said is not None:
            what = said or "max_records"
            raise SpecError(
                "shares-count-all-records",
                f"The value of count is 'shares', and {what} is set.",
                f"Shares count all records of one {self.name}, and {what} would leave some out.",
                f"Remove {what}, or count records.",
                "Nothing was planned.",
                place=f"privacy.{what}",
            )
        if self.merge:
            raise SpecError(
                "shares-with-merge",
                "The value of count is 'shares', and merge is set.",
                "No amounts are summed over shares.",
                "Remove merge, or count records.",
                "Nothing was planned.",
                place="privacy.merge",
            )

    @property
    def parts(self) -> int:
        """In how many parts a record is counted: 1, and PARTS where shares are."""
        return PARTS if self.count is Counted.SHARES else 1

    @property
    def pattern(self) -> Pattern:
        """What records of one unit have in common."""
        each, far = (tuple(dict(given).items()) for given in (self.per_value, self.separation))
        return Pattern(self.once_per, each, far, self.fixed)

    def describe(self) -> str:
        """One line for a report: "one person (at most 3 records), add-or-remove-one".

        **Guarantees**

        - The bound on records is always said, except for the unit "record" with one record, which says it
          itself; and by which column it is enforced, where it is.
        """
        if self.name == "record" and self.max_records == 1:
            return f"one record, {self.neighbours}"
        if self.parts > 1:
            return f"one {self.name} (all records, in shares of one, by column '{self.id}'), {self.neighbours}"
        plural = "record" if self.max_records == 1 else "records"
        how = "" if self.id is None else f", enforced by column '{self.id}'"
        how += f", with {self._added} added up" if self.merge else ""
        return f"one {self.name} (at most {self.max_records} {plural}{self.pattern.words}{how}), {self.neighbours}"

    def __str__(self) -> str:
        return self.describe()

    @property
    def account(self) -> str:
        """The sentence by which accounts of such units are printed; what identifies one is its key (:class:`Account`).

        With an id it is "one person (by 'person_id'), add-or-remove-one", however many records of a person a release
        counts, and in what pattern: releases of one record each and of twelve protect the same persons, and add up
        in one account. What is only promised is part of the account: whoever keeps no such promise is somebody else,
        and pays for as many records anywhere.
        """
        return self.describe() if self.id is None else f"one {self.name} (by '{self.id}'), {self.neighbours}"

    @property
    def bound(self) -> Bound | None:
        """By what it is enforced that at most so many records of one unit are counted, where it is."""
        if self.id is None:
            return None
        return Bound(self.id, self.max_records if self.parts == 1 else None, self.pattern, self.merge)

    @property
    def merged(self) -> str | None:
        """Which records of a unit are one, in words; None where none are."""
        if not self.merge:
            return None
        return f"records of one {self.name} alike in all else are one, with their {self._added} added up"

    @property
    def _added(self) -> str:
        return " and ".join(f'"{a}"' for a in self.merge)

    @property
    def kept(self) -> str | None:
        """How it is kept that a unit has no more records, in words; None for a record, which is one.

        **Guarantees**

        - What is not enforced is called a promise that nobody checks.
        """
        if (self.name, self.max_records) == ("record", 1):
            return None
        if self.parts > 1:
            return f"all records of each {self.name}, in equal shares of one: enforced, column '{self.id}'"
        plural = "record" if self.max_records == 1 else "records"
        what = f"at most {self.max_records} {plural} of each {self.name}{self.pattern.words}"
        if self.id is None:
            return f"{what}: promised, not checked"
        return (
            f"{what}: enforced, column '{self.id}'; {'' if self.merged is None else f'{self.merged}; '}of one with "
            f"more, a rule chooses from its own records which are counted, and {UNSAID}"
        )

    @property
    def between_draws(self) -> str:
        """The assumption about the records of a unit between two draws of a series, in words.

        A period is drawn from frozen counts of earlier periods (:mod:`fitnoise.kernel.series`). All draws together have
        the price of the records that were counted in them. A record that moves to another period between two draws is
        counted twice, and one that moves to another cell of an attribute breaks what its unit has in common. This holds
        for every unit, also for a single record. With an id each period enforces the bound on its own records, and what
        was counted before changes nothing: then an id stands for one unit in all periods.

        **Guarantees**

        - The sentence says that nobody checks the assumption.
        """
        if self.id is not None:
            return "from draw to draw of a series one id stands for one unit: promised, not checked"
        return (
            "from draw to draw of a series every record stays in its cells, and is counted in one period: promised, "
            "not checked"
        )

    def cost_factor(self) -> int:
        """How many times the cost of one record one unit costs: g², with g = `max_records`.

        A mechanism that adds Gaussian noise to linear functions of the counts x has, for some positive
        semidefinite X, the squared distance q(v)² = vᵀ X v between databases that differ by v; q is a
        seminorm.

        *Add or remove one.* The cost of one record is max_i q(e_i)². A unit with at most g records adds or
        removes v = ±(e_i1 + … + e_im), m ≤ g, so q(v) ≤ m max_i q(e_i) ≤ g max_i q(e_i). All g records may
        fall in the cell of the maximum, v = g e_i: the bound is attained, and Δ² grows by exactly g².

        *Replace one.* The cost of one record is max_ij q(e_i − e_j)². Each of the m ≤ g records of the unit
        takes another value, so v is a sum of m differences e_i − e_j and q(v) ≤ g max_ij q(e_i − e_j), attained
        when all g move between the worst two cells. Again exactly g². Where a record may come or go as well (the unit
        changes its number of records, or some are dropped), the step that g² multiplies is the larger of this and
        max_i q(e_i)²: `Adjacency.steps` names both.

        **Guarantees**

        - The result is a whole number ≥ 1, the same for both relations, and no smaller factor is safe.
        """
        return self.max_records**2


def _attributes(names: Sequence[object]) -> bool:
    """Whether these name different attributes."""
    return all(isinstance(a, str) and is_name(a) and '"' not in a for a in names) and len(set(names)) == len(names)


def _is_count(n: object) -> bool:
    return type(n) is int and 1 <= n <= MAX_RECORDS_PER_UNIT


class Region(StrEnum):
    """Which x are allowed, for n records."""

    AT_MOST = "at-most"
    EXACTLY = "exactly"
    HULL = "hull"


class Grid(Protocol):
    """What is known of a domain: all that a design may count by."""

    @property
    def sizes(self) -> Mapping[str, int]:
        """Number of cells of attributes, of their levels and of shares of these."""

    def home(self, name: str, /) -> str:
        """The attribute of which this is a level or a share; an attribute itself."""

    def alike(self, name: str, axes: Collection[str], /) -> int:
        """How many cells of an attribute lie in one place along all of these axes at most."""


@final
@dataclass(frozen=True)
class Adjacency:
    """When two databases are neighbours: what one protected unit can change, and what a design prices.

    unit: who is protected. drops: whether records outside the domain are left out, so that one can come or go. grid: of
    the domain; None where it is not known, and each name is an attribute of its own.

    **Guarantees**
        * a change of the unit is a sum of at most `records` steps of one record each, every one of them a neighbour
          step of one of the relations in `steps`; where shares of records are counted, it is no step but a mean of such
          steps, and of none: what comes and what goes are each at most one record in all. Whatever is convex in what
          records add, as the price of linear answers is, is no larger there than at the dearest step;
        * what comes, and what goes, keeps to `pattern`: where neighbours add or remove one, all records of a unit come,
          or all go; where they replace one, some go and others come.
    """

    unit: PrivacyUnit = PrivacyUnit()
    drops: bool = False
    grid: Grid | None = field(default=None, repr=False, compare=False)

    @property
    def pattern(self) -> Pattern:
        """What records of one unit have in common; nothing where there is one, or where nothing is known."""
        return self.unit.pattern if self.records > 1 else ANY

    @property
    def plain(self) -> Adjacency:
        """The same, and nothing is known of what records of one unit have in common: no neighbours are lost."""
        return replace(self, unit=replace(self.unit, once_per=(), per_value=(), separation=(), fixed=()))

    @cached_property
    def records(self) -> int:
        """How many records one unit can have, g: no more than have place in its pattern."""
        own, most = self.unit.pattern, [self.unit.max_records]
        if self.grid is not None:
            sizes = self.grid.sizes
            most += [n * math.prod(sizes[a] for a in names) for names, n in own.caps]
            most += [-(-sizes[a] // n) for a, n in own.separation if a not in own.fixed]
        return min(most)

    def along(self, axes: Iterable[str], names: Collection[str]) -> tuple[list[str], int | None]:
        """Those of some axes along which attributes lie, and how many of their joint cells share a place there at most.

        None where one of the attributes lies along no axis, and nothing is known of how many cells it has.
        """
        axes = list(axes)
        if self.grid is None:
            there = [a for a in axes if a in names]
            return there, 1 if len(there) == len(set(names)) else None
        homes = {a: self.grid.home(a) for a in axes}
        alike = (self.grid.alike(name, [a for a in axes if homes[a] == name]) for name in names)
        return [a for a in axes if homes[a] in names], math.prod(alike)

    @property
    def steps(self) -> tuple[Neighbours, ...]:
        """The relations of which a step of one record can be.

        Where a record is replaced, one can come or go as well if records outside the domain are dropped, if a unit
        may have fewer records than g, or if an id says whose it is: of one who has more or fewer, other numbers count.
        """
        own = self.unit.neighbours
        some = self.drops or self.unit.max_records > 1 or self.unit.id is not None
        both = own is Neighbours.REPLACE_ONE and some
        return (own, Neighbours.ADD_OR_REMOVE_ONE) if both else (own,)

    def of(self, other: PrivacyUnit, *promised: PrivacyUnit) -> Adjacency | None:
        """When data that are counted for this unit are neighbours for another; None where nothing bounds that.

        Args:
            other: whose records come, go or change.
            promised: further units of which the publisher says how many records one has in these data.

        Units that are called the same are the same, unless their ids differ; the largest number that was said of them
        is the safe one.

        * Where the counting enforces the bound of the other unit, at most so many of its records come or go.
        * Where it enforces that of this unit alone, a record more may push out another of the same person: each of the
          other's records comes, goes or replaces one, and one that is replaced, with its id, does so for two persons.
          Where several rules choose her records, or what is alike or apart, it may push out all, for as many others.
          Where shares are counted it changes all of hers, which together is a mean of such replacements.
        * Where it enforces none, numbers are promises. Of a unit by an id only others' promises are.

        A pattern is enforced with the bound, or else what the other unit promises: of which attributes, only those know
        whose plan it is.
        """
        same = look_alike(other.name, self.unit.name) and other.id in {None, self.unit.id}
        if self.unit.id is not None and same:
            return replace(self, unit=replace(self.unit, name=other.name, neighbours=other.neighbours))
        said = [u.max_records for u in (self.unit, *promised) if u.id is None and look_alike(other.name, u.name)]
        records = max(said + ([other.max_records] if other.id is None else []), default=MAX_RECORDS_PER_UNIT + 1)
        if self.unit.id is not None:
            records *= 1 if other.neighbours is Neighbours.ADD_OR_REMOVE_ONE else 2
            own = self.unit.pattern
            records *= 1 if len(own.caps) <= 1 and not own.separation and not own.fixed else self.records
            other = replace(other, neighbours=Neighbours.REPLACE_ONE)
        if records > MAX_RECORDS_PER_UNIT:
            return None
        other = replace(other, max_records=records, id=None, count=Counted.RECORDS, merge=())
        return Adjacency(other, drops=self.drops or self.unit.id is not None)

    def changes(self, other: Adjacency) -> int | None:
        """At most how many changes of this unit, one after the other, make any one change of the other's.

        A change of the other is at most g' steps of one record. Where this unit can take each of these steps, g at a
        time do: ⌈g'/g⌉ changes; one at a time where its own are once per something, which the other's need not be.
        Where it can add and remove records, replacing some is removing them and adding what they become: twice as many.
        Where it can only replace them, the number of records stays, and no number of its changes makes one come or go:
        None.

        So what costs this unit ρ, or pure ε, costs the other at most k²ρ, or kε, for the k returned: ε adds up, and for
        ρ that is group privacy of concentrated differential privacy (Bun and Steinke 2016, Proposition 1.9). Records
        are removed first, so no database in between has more of them than the larger of both.
        """
        times = -(-other.records // (1 if self.pattern else self.records))
        if set(other.steps) <= set(self.steps):
            return times
        return 2 * times if Neighbours.ADD_OR_REMOVE_ONE in self.steps else None

    @property
    def by_cell(self) -> bool:
        """Whether a unit pays for the cells of its own records alone: neighbours add or remove one."""
        return self.unit.neighbours is Neighbours.ADD_OR_REMOVE_ONE

    @property
    def fixes_size(self) -> bool:
        """Whether neighbours have the same number of records, which is then public."""
        return self.steps == (Neighbours.REPLACE_ONE,)


MAX_RECORDS = 2**40
"""Default public bound on the number of records."""

LARGEST_BOUND = 2**62
"""Largest public bound on the number of records: 64-bit integers hold the sum of that many."""


class OutsideDomain(StrEnum):
    """What to do with a record whose value is missing, not a number, or not in the declared domain, and has no cell."""

    REFUSE = "refuse"
    DROP = "drop"


@final
@dataclass(frozen=True)
class DataSource:
    """What is publicly known of the data, before they are opened.

    Attributes:
        name: of the source.
        table: of a DuckDB file, when the data come from one.
        outside_domain: what becomes of records outside an attribute that does not say it itself: refuse the
            data (default), or leave such records out of every table.
        max_records: a public bound on the number of records. It chooses the width of integers at plan time. Data with
            more records are refused where counts would not be exact otherwise: arrays of counts, sums of amounts
            (:meth:`fitnoise.kernel.order.Order.max_records`) and shares. Nothing else compares it with the data.
        account: the name under which a ledger sums up charges: one for all sources about the same people, such
            as the quarters of a survey; None where it is that of the source.
        max_dropped: the largest share of records, from 0 to 1, that may be left out of every table because they are
            outside the domain, or have no id; where more are, the count stops before anything is charged. None (the
            default): any share. Only the operator sees it, and how many there are: what is published never says.
        where: which records are counted at all, by their own columns: {column: value, values or bounds}, such as
            {"country": "SI", "year": {"at_least": 2020, "below": 2025}, "kind": ["a", "b"]}. All must be met;
            what is missing meets none. Whose data they are it does not change: the account is the same.

    Raises:
        SpecError: one of these is not as said.
    """

    name: str = "default"
    table: str | None = None
    outside_domain: OutsideDomain = OutsideDomain.REFUSE
    max_records: int = MAX_RECORDS
    account: str | None = None
    where: tuple[Condition, ...] | Mapping[str, Any] = ()
    max_dropped: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "where", conditions(self.where))
        most = self.max_dropped
        if most is not None and (isinstance(most, bool) or not isinstance(most, int | float) or not 0 <= most <= 1):
            raise SpecError(
                "max-dropped-invalid",
                f"The value of max_dropped is {most!r}.",
                "It must be a share of the records, from 0 to 1.",
                "Give a share such as 0.01.",
                "Nothing was planned.",
                place="data.max_dropped",
            )
        try:
            object.__setattr__(self, "outside_domain", OutsideDomain(self.outside_domain))
        except ValueError:
            raise SpecError(
                "outside-domain-invalid",
                f"The value of outside_domain is {self.outside_domain!r}.",
                "It must be 'refuse' or 'drop'.",
                "Choose one of the two.",
                "Nothing was planned.",
                place="data.outside_domain",
            ) from None
        for what, name, place in (
            ("the data source", self.name, "data.source"),
            ("the account of the data source", self.population, "data.account"),
        ):
            if not is_name(name):
                raise SpecError(
                    "source-name-invalid",
                    f"The name of {what} is {reprlib.repr(name)}.",
                    "The ledger sums charges under this name; it must be printable, without spaces around it, in "
                    "composed Unicode (NFC).",
                    "Give such a name.",
                    "Nothing was planned.",
                    place=place,
                )
        object.__setattr__(self, "account", None if self.account == self.name else self.account)
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
        """Whose data these are: the name under which a ledger sums up charges."""
        return self.name if self.account is None else self.account

    @property
    def drops(self) -> bool:
        """Whether records outside the domain are left out, where an attribute does not say otherwise."""
        return self.outside_domain is OutsideDomain.DROP

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """What records must meet to be counted, by column."""
        assert isinstance(self.where, tuple)  # noqa: S101 - made so
        return self.where


@final
@dataclass(frozen=True)
class Account:
    """What is protected: one balance per account.

    A promise binds its cells: "once per month" is promised of the cells that `month` has, and nothing is known of those
    of another attribute of that name. So the account says of each attribute of the pattern what decides its cells.

    Args:
        source: whose data are meant: the name of the data source, or of the account it shares with others.
        unit: the privacy unit. Of one by an id only name, relation and id are kept: how many of its records are
            counted, and in which pattern, each release enforces by itself.
        cells: of each attribute of a pattern that is promised, the SHA-256 (hex) of what decides its cells
            (:func:`fitnoise.kernel.order.cell_key`), in any order.

    Raises:
        LedgerError: the source is not a string, is empty, has spaces around it or an unprintable character, or is not
            in Unicode NFC: one source spelt in two ways would have two budgets; the unit is none; or the attributes are
            others than those of its pattern, or are said twice, or not by a SHA-256.

    **Guarantees**

    - Two accounts are equal where their sources and their `key` are, and only there.
    - `parse` reads what `key` writes, and nothing else.
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
        if [a for a, _ in cells] != sorted(unit.pattern.names) or not all(is_digest(x) for _, x in cells):
            raise LedgerError(
                "account-cells-invalid",
                "The account does not give each attribute of its pattern the SHA-256 of its cells, and nothing else.",
                "Attributes of equal names may have other cells.",
                "Use the account of a plan (plan.order.account).",
                "Nothing was charged.",
            )
        object.__setattr__(self, "unit", unit)
        object.__setattr__(self, "cells", cells)

    @property
    def document(self) -> dict[str, Any]:
        """All that identifies the unit, as JSON values; of a pattern each attribute with what decides its cells."""
        unit, cells = self.unit, dict(self.cells)
        own = {"name": unit.name, "neighbours": str(unit.neighbours)}
        if unit.id is not None:
            return own | {"id": unit.id}
        once, each, far, fixed = unit.pattern
        said = {
            "once_per": [[a, cells[a]] for a in once],
            "per_value": [[a, cells[a], n] for a, n in each],
            "separation": [[a, cells[a], n] for a, n in far],
            "fixed": [[a, cells[a]] for a in fixed],
        }
        return own | {"records": unit.max_records} | {what: found for what, found in said.items() if found}

    @cached_property
    def key(self) -> str:
        """What identifies the unit, beside the source: canonical JSON, sorted keys, no spaces, ASCII."""
        return _json(self.document)

    @cached_property
    def digits(self) -> str | None:
        """The first digits of a SHA-256 of its cells; None where no pattern is promised."""
        return hashlib.sha256(_json(self.cells).encode("ascii")).hexdigest()[:_DIGITS_SHOWN] if self.cells else None

    @property
    def sentence(self) -> str:
        """The unit in words, for people; where a pattern is promised, with the digits that stand for its cells."""
        return self.unit.account if self.digits is None else f"{self.unit.account} [{self.digits}]"

    @classmethod
    def parse(cls, source: str, document: object) -> Self:
        """Read what `document` says.

        Args:
            source: whose data are meant.
            document: JSON values.

        Raises:
            LedgerError: `document` writes no such thing.
        """
        found = None
        with contextlib.suppress(SpecError, LedgerError, TypeError, ValueError, LookupError, AttributeError):
            said: dict[str, Any] = dict(document)  # type: ignore[call-overload]
            lists = {what: said.get(what, []) for what in Pattern._fields}
            once, fixed = (tuple(x[0] for x in lists[what]) for what in ("once_per", "fixed"))
            each, far = (tuple((x[0], x[2]) for x in lists[what]) for what in ("per_value", "separation"))
            relation, most = Neighbours(said["neighbours"]), said.get("records", 1)
            unit = PrivacyUnit(said["name"], most, relation, said.get("id"))
            unit = replace(unit, once_per=once, per_value=each, separation=far, fixed=fixed)
            found = cls(source, unit, tuple({x[0]: x[1] for x in itertools.chain(*lists.values())}.items()))
        if found is None or found.document != document:
            raise LedgerError(
                "account-document-invalid",
                f"The document {reprlib.repr(document)} does not describe an account.",
                "It must be as fitnoise writes it.",
                "Use the document of an account without changes.",
                "Nothing was charged.",
            )
        return found


def _json(value: object) -> str:
    """Canonical JSON: sorted keys, no spaces, ASCII."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))
