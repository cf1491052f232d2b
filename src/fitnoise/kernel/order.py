"""An order: what is to be measured, for whom, and under which limits. All that `measure` is told. Trust kernel."""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, Final, Self, final

from fitnoise.errors import DataError, FitnoiseError, PlanError
from fitnoise.kernel.arguments import shown
from fitnoise.kernel.checks import is_digest, is_name
from fitnoise.kernel.codings import classified_by
from fitnoise.kernel.designs._base import WRAP, Design
from fitnoise.kernel.domain import Domain, attribute_document
from fitnoise.kernel.immutable import changeable, is_of_kernel
from fitnoise.kernel.losses import Axes, Loss
from fitnoise.kernel.profiles import ceil_dyadic
from fitnoise.kernel.units import Account, Adjacency, DataSource, PrivacyUnit

WHAT: Final = ("cap", "budget")
"""Kinds of limits."""

ENOUGH: Final = 2**31
"""A plan that counts this many records exactly asks for no smaller public bound on their number."""

_NOTHING: Final = "Nothing was read and nothing was charged."


@final
@dataclass(frozen=True)
class Limit:
    """What some or all designs may cost together.

    what: "cap" or "budget". rho: at most this, or, where `at` is given, what stays within it whatever the noise.
    epsilon: where it is one on pure ε, at most this, and nothing else counts: its ρ is what follows from it.
    designs: which of the order's; None for all. axes, shares: relative budgets of the joint cells of some attributes,
    in C order; without any, all cells have the same. at: (ε, δ), kept by a larger ρ where Gaussian noise is fine.

    Raises:
        PlanError: another `what`; ρ or ε that is no Fraction of at least 0; designs that are not different positions;
            shares that are not one a joint cell, from 0 to 1 and not all 0; or (ε, δ) that is no pair of an ε above 0
            and a δ from 0 to below 1.
    """

    what: str
    rho: Fraction
    designs: tuple[int, ...] | None = None
    axes: Axes = ()
    shares: tuple[float, ...] = ()
    at: tuple[float, float] | None = None
    epsilon: Fraction | None = None

    def __post_init__(self) -> None:
        if type(self.what) is not str or self.what not in WHAT:
            raise PlanError(f"a limit is a cap or a budget; got {shown(self.what)}. {_NOTHING}")
        costs = [self.rho] if self.epsilon is None else [self.rho, self.epsilon]
        if not all(type(x) is Fraction and x >= 0 for x in costs):
            raise PlanError(f"the ρ and the ε of a limit are fractions of at least 0. {_NOTHING}")
        if self.designs is not None and not _are_positions(self.designs):
            raise PlanError(f"a limit names its designs by different positions from 0. {_NOTHING}")
        if not _are_axes(self.axes):
            raise PlanError(f"a limit names the axes of its cells once, each with its number of values. {_NOTHING}")
        cells = math.prod(n for _, n in self.axes) if self.axes else 0
        shares = type(self.shares) is tuple and all(type(x) is float and 0 <= x <= 1 for x in self.shares)
        if not shares or len(self.shares) != cells or any(self.shares) != bool(cells):
            raise PlanError(f"a limit has one share for each joint cell, from 0 to 1 and not all 0. {_NOTHING}")
        if self.at is not None:
            pair = type(self.at) is tuple and [*map(type, self.at)] == [float, float]
            if not pair or not (0 < self.at[0] < math.inf and 0 <= self.at[1] < 1):
                raise PlanError(f"a limit is at an ε above 0 and a δ from 0 to below 1. {_NOTHING}")

    def counted(self, loss: Loss) -> Loss:
        """What a loss counts, relative to the budgets of cells."""
        return loss.relative(self.axes, self.shares)

    def allows(self, loss: Loss) -> bool:
        """Whether a loss is within it."""
        if self.epsilon is not None:
            return loss.epsilon is not None and loss.epsilon <= self.epsilon
        counts = self.counted(loss)
        return counts.rho <= self.rho or (self.at is not None and counts.delta_at(self.at[0]) <= self.at[1])


@final
@dataclass(frozen=True)
class Size:
    """How many records the data are declared to have. exactly: or at most.

    Raises:
        PlanError: a number of records that is no whole number of at least 0, or `exactly` that is neither yes nor no.
    """

    records: int
    exactly: bool

    def __post_init__(self) -> None:
        if type(self.records) is not int or self.records < 0 or type(self.exactly) is not bool:
            raise PlanError(f"a declared size is a whole number of at least 0, and exact or not. {_NOTHING}")

    def refuse(self, records: int) -> None:
        """Raise DataError for data of another size, without saying how many records there are."""
        if records > self.records or (self.exactly and records != self.records):
            raise DataError(
                f"the plan is for {'exactly' if self.exactly else 'at most'} {self.records:,} records, and the data "
                "have another number. Correct `size`, if the number is public, and plan again. Nothing was measured "
                "and nothing was charged."
            )


@final
@dataclass(frozen=True, eq=False)
class Order:
    """What is to be measured.

    domain: of the records. source: the data, as publicly known. unit: who is protected. designs: what is measured.
    plan: the hash by which later orders can name this one. mechanism: what it is called in a ledger.
    limits: what it may cost. sizes: how many records there may be.
    beside: hashes of plans measured on the very same records, with which it is composed. free: whether it must not
    raise what is spent there. units: further ones that are charged, each on an account of its own.

    An order checks every field when it is made, and believes none.

    Raises:
        PlanError: a field of another type, a subclass of one, or something inside that can change; no design, or one
            for another domain; one that asks of whom records are left out, where there is no id; a further unit has an
            id of its own; the records of a unit keep to a pattern in what is no attribute of the domain; a limit on
            designs or cells that are not there; an exact size
            where neighbours have other numbers of records; a plan that is no hash, or that names itself
            among the plans it is composed with; or a declared number of records whose counts would not be exact
            (`max_records`).
    """

    domain: Domain
    source: DataSource
    unit: PrivacyUnit
    designs: tuple[Design, ...]
    plan: str
    mechanism: str
    limits: tuple[Limit, ...] = ()
    sizes: tuple[Size, ...] = ()
    beside: tuple[str, ...] = ()
    free: bool = False
    units: tuple[PrivacyUnit, ...] = ()

    def __post_init__(self) -> None:
        self._check_kinds()
        if not self.designs:
            raise PlanError("an order without a design measures nothing.")
        for design in self.designs:
            design.check(self.domain.sizes, self.domain.steps)
            for upper, lower, above in design.nested:
                if not self.domain.lies(upper, lower, above):
                    raise PlanError("a design is priced for places that lie in others than those of the domain.")
        if self.unit.id is None and any(d.asks_left_out for d in self.designs):
            raise PlanError("of whom records are left out is known where an id says whose they are; there is none.")
        own = self.unit.name, self.unit.bound
        if any(u.id is not None and (u.name, u.bound) != own for u in self.units):
            raise PlanError("records are counted by one id, that of the protected unit: no further one has its own.")
        patterned = {a for u in (self.unit, *self.units) for a in u.pattern.names}
        if not patterned <= set(self.domain):
            raise PlanError("records of a unit keep to a pattern in an attribute that the domain does not have.")
        if patterned & set(self.domain.steps):
            raise PlanError("records of a unit keep to a pattern in an amount, between whose ends prices do not hold.")
        if not {a for u in (self.unit, *self.units) for a in u.merge} <= set(self.domain.steps):
            raise PlanError("records of a unit become one with something added up that is no amount of the domain.")
        self._check_limits()
        _ = self.drawn, self.max_records()

    def _check_kinds(self) -> None:
        """Raise PlanError for a field that is not of its type, or that could change once it was checked."""
        kinds = {
            "domain": Domain,
            "source": DataSource,
            "unit": PrivacyUnit,
            "plan": str,
            "mechanism": str,
            "free": bool,
        }
        lists: dict[str, type] = {
            "limits": Limit,
            "sizes": Size,
            "beside": str,
            "units": PrivacyUnit,
        }
        wrong = [name for name, kind in kinds.items() if type(getattr(self, name)) is not kind]
        for name, kind in lists.items():
            value = getattr(self, name)
            wrong += [name] if type(value) is not tuple or any(type(x) is not kind for x in value) else []
        if type(self.designs) is not tuple or not all(
            isinstance(d, Design) and is_of_kernel(type(d)) for d in self.designs
        ):
            wrong.append("designs")
        if wrong:
            raise PlanError(
                f"an order takes its fields in the kernel's own types, and in no subclass of one: {', '.join(wrong)} "
                f"is of another type. {_NOTHING}"
            )
        for name in kinds.keys() | lists.keys():
            _refuse_changeable(name, getattr(self, name))
        if not all(map(is_digest, (self.plan, *self.beside))):
            raise PlanError(f"an order names plans by their hashes, 64 hexadecimal digits each. {_NOTHING}")
        if self.plan in self.beside or len(set(self.beside)) < len(self.beside):
            raise PlanError(f"a plan is composed with other plans, and names each of them once. {_NOTHING}")
        if not is_name(self.mechanism):
            raise PlanError(f"a mechanism has a printable name without spaces around it. {_NOTHING}")

    def _check_limits(self) -> None:
        """Raise PlanError for a limit on designs or cells that are not there, or an exact size that is not public."""
        for limit in self.limits:
            there = all(self.domain.sizes.get(a) == n for a, n in limit.axes)
            if not there or any(i >= len(self.designs) for i in limit.designs or ()):
                raise PlanError(
                    f"a limit is on designs of the order, and on cells of attributes of the domain. {_NOTHING}"
                )
        if any(size.exactly for size in self.sizes) and not self.adjacency.fixes_size:
            raise PlanError(
                "a plan states the exact number of records only where neighbours have the same number: where a record "
                "can come or go, refusing data of another number reveals that it did. State the size as an upper "
                f"bound. {_NOTHING}"
            )

    def max_records(self, times: int = 1) -> int | None:
        """Return the largest number of records that is counted exactly; None if every number is.

        A record adds at most the product of the steps of the amounts in a margin to a count, and in shares at most its
        parts. Counts are 64-bit integers. The number follows from the plan and from `max_records` of the source. Data
        with more records are refused.

        Args:
            times: Number of periods whose counts are added up; at least 1.

        Raises:
            PlanError: The number is below both `max_records` and `ENOUGH`.
        """
        steps, parts = self.domain.steps, self.unit.parts
        if not steps and parts == 1:
            return None
        products = (math.prod(sum(steps.get(a, (1,))) for a in m) for d in self.designs for m in d.margins())
        largest, declared = max(products, default=1), self.source.max_records
        exact = (WRAP - 1) // (largest * parts * times)
        if exact < min(declared, ENOUGH):
            raise PlanError(
                f"a record can add {largest:,} steps of amounts to a count, and the counts hold at most {exact:,} such "
                f"records; max_records of the source is {declared:,}. Declare a larger step, or set max_records to "
                f"{exact:,} or less if that is public. {_NOTHING}"
            )
        return min(exact, declared)

    @property
    def adjacency(self) -> Adjacency:
        """When two databases are neighbours."""
        return self.domain.adjacency(self.source, self.unit)

    @cached_property
    def account(self) -> Account:
        """What it is charged to: its data source and its privacy unit."""
        return account(self.source, self.unit, self.domain)

    @cached_property
    def drawn(self) -> tuple[Design, ...]:
        """The designs as they are drawn: where records are counted in parts, noise is as many times as large.

        Raises:
            PlanError: one measures no shares of records, where these are counted; or something is asked of the number
                of records, or there is an amount.
        """
        if self.unit.parts == 1:
            return self.designs
        if self.sizes or self.domain.steps:
            raise PlanError("shares of records tell neither how many records there are, nor amounts of theirs.")
        return tuple(d.in_parts(self.unit.parts) for d in self.designs)

    def afresh(self) -> Self:
        """Return an order of the same integers, with nothing computed of them before, in read-only arrays.

        Raises:
            PlanError: a design holds what can change, or is not the kernel's own.
        """
        designs = tuple(d.afresh(self.adjacency) for d in self.designs)
        _refuse_changeable("designs", designs)
        return replace(self, designs=designs)

    @cached_property
    def losses(self) -> tuple[Loss, ...]:
        """The cost of each design for one protected unit."""
        return tuple(d.loss(self.adjacency) for d in self.designs)

    @cached_property
    def loss(self) -> Loss:
        """What all of it is charged for one protected unit, exact."""
        return sum(self.losses, Loss.nothing())

    def cost(self, other: PrivacyUnit) -> Loss | None:
        """What all of it costs another unit, exact, from the same integers; None where nothing bounds it.

        Of a design of which nothing is proven for the other unit, the cost for its own times what
        :meth:`Adjacency.changes` says. Nothing bounds it for a unit whose records can come or go where data of another
        number of records are refused: that they were not tells the number; nor for one by an id by which these data
        are not counted (:meth:`Adjacency.of`). That records of another unit keep to a pattern counts where it is
        enforced here; otherwise its attributes may be others of their names.
        """
        of = self.adjacency.of(other, *self.units)
        if of is None:
            return None
        of = of if of.unit.id is not None else of.plain
        told = any(s.exactly for s in self.sizes) or any(d.fixes_size(self.adjacency) for d in self.designs)
        losses = [self._cost(i, of) for i in range(len(self.designs))]
        known = [x for x in losses if x is not None]
        if (told and not of.fixes_size) or len(known) < len(losses):
            return None
        return self._keyed(sum(known, Loss.nothing()))

    def also(self, accounts: Iterable[Account]) -> dict[Account, Loss]:
        """What all of it costs other accounts of its name, where that is bounded.

        An account of which the unit is called as its own, and keeps to a pattern in other cells, is one of these.

        Raises:
            PlanError: nothing bounds what it costs a further unit of its own.
        """
        own = [account(self.source, unit, self.domain) for unit in self.units]
        others = [a for a in dict.fromkeys([*accounts, *own]) if a.source == self.account.source and a != self.account]
        costs = {a: self.cost(a.unit) for a in others}
        for a in own:
            if costs.get(a, self.loss) is None:
                raise PlanError(
                    f"nothing bounds what the plan costs {a.sentence!r}: it tells the number of records, which is "
                    "public only where no record comes or goes. Leave that unit out, or give it the relation of the "
                    "protected one. Nothing was read and nothing was charged."
                )
        return {a: loss for a, loss in costs.items() if loss is not None}

    def _cost(self, i: int, of: Adjacency) -> Loss | None:
        """What a design costs a unit of another kind."""
        with contextlib.suppress(FitnoiseError):
            return self.designs[i].loss(of)
        own = self.adjacency.plain  # a change of another unit is none of those that keep to a pattern
        times = own.changes(of)
        if times is None or self.designs[i].asks_left_out:  # records of several persons are no change of one
            return None
        return self.designs[i].loss(own).repeated(times)

    def against_limits(self) -> Iterator[tuple[Limit, Loss]]:
        """Every limit, with the loss that it is about."""
        for limit in self.limits:
            over = range(len(self.losses)) if limit.designs is None else limit.designs
            yield limit, sum((self.losses[i] for i in over), Loss.nothing())

    def charged(self) -> Loss:
        """The loss as a ledger keeps it: every axis named by its attribute's whole definition."""
        return self._keyed(self.loss)

    def _keyed(self, loss: Loss) -> Loss:
        return loss.named({a: axis_key(self.domain, a) for a, _ in loss.axes})

    def detail(self) -> dict[str, Any]:
        """What a ledger keeps beside the cost: JSON values without floats."""
        out: dict[str, Any] = {"plan": self.plan, "mechanism": self.mechanism, "rho": str(self.loss.rho)}
        gaussian = self.loss.gaussian_mu_squared
        out |= {} if gaussian is None else {"gaussian": str(ceil_dyadic(gaussian))}
        for design in self.designs:
            for key, values in design.detail(self.adjacency).items():
                out.setdefault(key, []).extend(values)
        return out


def axis_key(domain: Domain, name: str) -> str:
    """An attribute's name with the SHA-256 of its whole definition: in two plans the same key, the same cells.

    Cells for missing values are numbered as they are declared, and written as pairs, whose order no sorting changes. In
    which cell of an amount a record is may go by another attribute: then that belongs to its definition. The column is
    that of the data: two hierarchies in two columns may have levels of one name.
    """
    a = domain[name]
    whole = attribute_document(a) | ({"missing": a.missing} if a.beside else {}) | {"column": domain.column(name)}
    by = classified_by(a.coding)
    whole |= {} if by is None else {"class": axis_key(domain, by)}
    document = json.dumps(whole, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return f"{name}:{hashlib.sha256(document.encode('ascii')).hexdigest()}"


def _refuse_changeable(name: str, value: object) -> None:
    """Raise PlanError for a value of an order in which something can change, or is not the kernel's own."""
    wrong = changeable(value)
    if wrong is not None:
        raise PlanError(
            f"{name} of an order holds an object of type {wrong}, which could change after the price was computed, or "
            f"is not the kernel's own. {_NOTHING}"
        )


def _are_positions(value: Any) -> bool:
    """Return True for a tuple of different whole numbers from 0."""
    return type(value) is tuple and all(type(i) is int and i >= 0 for i in value) and len(set(value)) == len(value)


def _are_axes(axes: Any) -> bool:
    """Return True for a tuple of pairs: different names, each with a number of values."""
    pairs = type(axes) is tuple and all(type(x) is tuple and [*map(type, x)] == [str, int] for x in axes)
    return pairs and all(n > 0 for _, n in axes) and len({a for a, _ in axes}) == len(axes)


def cell_key(domain: Domain, name: str) -> str:
    """The SHA-256 of all that decides in which cell of an attribute a record is: what a promise about its cells binds.

    That is its kind, column, what is read off a date, its codes or ends in order, a lookup, and what becomes of missing
    and other values. How cells are called decides nothing: a label may be mended, and the promise is the same.
    """
    a = domain[name]
    said = attribute_document(a) | {"labels": None, "column": domain.column(name)}
    if a.beside:
        own = {what: a.beside.index(cell) for what in ("absent", "outside") if (cell := said.get(what)) in a.beside}
        said |= own | {"missing": list(said["missing"].values())}
    document = json.dumps(said, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(document.encode("ascii")).hexdigest()


def account(source: DataSource, unit: PrivacyUnit, domain: Domain) -> Account:
    """The ledger account of the people a data source is about, for a unit whose promises are about cells of a domain.

    Args:
        source: the data, as publicly known.
        unit: the privacy unit.
        domain: of the records; it has all attributes of the pattern that is promised.
    """
    bound = () if unit.id is not None else sorted(unit.pattern.names)
    return Account(source.population, unit, tuple((name, cell_key(domain, name)) for name in bound))
