"""Define an order: the designs to measure, their protected unit and their limits. Part of the trust kernel.

An order holds all that `measure` knows of a measurement, apart from the data and the ledger.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, Final, Self, final

from fitnoise.errors import DataError, FitnoiseError, PlanError
from fitnoise.kernel.checks import describe_value, is_digest, is_name
from fitnoise.kernel.designs._base import INT64_SAFE_BOUND, Design
from fitnoise.kernel.domain import Domain, axis_key, cell_key
from fitnoise.kernel.immutable import changeable, is_of_kernel
from fitnoise.kernel.losses import Axes, Loss
from fitnoise.kernel.profiles import ceil_dyadic
from fitnoise.kernel.units import Account, Adjacency, DataSource, PrivacyUnit

WHAT: Final = ("cap", "budget")
"""The kinds of limits."""

ENOUGH: Final = 2**31
"""The sufficient number of records: a plan that counts this many exactly needs no smaller `max_records`."""


@final
@dataclass(frozen=True)
class CostLimit:
    """A limit on the cost of some or all designs together.

    Attributes:
        name: The kind, "cap" or "budget".
        rho: The largest ρ. With `epsilon_delta`, it is a ρ that keeps (ε, δ) for any noise; this is not checked. A loss
            may then exceed it if its own δ at ε (:meth:`Loss.delta_at`) is at most δ.
        epsilon: The largest ε of a limit on pure ε. Then nothing else counts, and ρ is the value that follows from ε.
        designs: The positions of the order's designs; None for all.
        axes: The attributes with relative budgets by joint cell, in C order; without any, all cells have one budget.
        shares: The relative budgets of the joint cells of `axes`, from 0 to 1.
        epsilon_delta: A pair (ε, δ), which allows a larger ρ where Gaussian noise is fine.

    Raises:
        PlanError: `name` is unknown. ρ or ε is not a Fraction of at least 0. The designs are not different positions.
            The axes are not different names, each with a number of values. The shares are not one for each joint cell,
            from 0 to 1 and not all 0. Or (ε, δ) is not a pair with a finite ε above 0 and δ from 0 to below 1.
    """

    name: str
    rho: Fraction
    designs: tuple[int, ...] | None = None
    axes: Axes = ()
    shares: tuple[float, ...] = ()
    epsilon_delta: tuple[float, float] | None = None
    epsilon: Fraction | None = None

    def __post_init__(self) -> None:
        if type(self.name) is not str or self.name not in WHAT:
            raise PlanError(
                "limit-kind-unknown",
                f"A limit of the order is of the kind {describe_value(self.name)}.",
                "A limit is a cap or a budget.",
                'Give the kind "cap" or "budget".',
                "Nothing was read and nothing was charged.",
            )
        costs = [self.rho] if self.epsilon is None else [self.rho, self.epsilon]
        if not all(type(x) is Fraction and x >= 0 for x in costs):
            raise PlanError(
                "limit-cost-invalid",
                "The ρ or the ε of a limit is not a fraction of at least 0.",
                "",
                "Give a Fraction of at least 0.",
                "Nothing was read and nothing was charged.",
            )
        x = () if self.designs is None else self.designs
        if type(x) is not tuple or any(type(i) is not int or i < 0 for i in x) or len({*x}) < len(x):
            raise PlanError(
                "limit-designs-invalid",
                "The designs of a limit are not different positions.",
                "",
                "Name each design once, by its position from 0.",
                "Nothing was read and nothing was charged.",
            )
        if not _are_axes(self.axes):
            raise PlanError(
                "limit-axes-invalid",
                "The axes of a limit are not different names, each with a number of values.",
                "",
                "Name each axis once, with its number of values.",
                "Nothing was read and nothing was charged.",
            )
        cells = math.prod(n for _, n in self.axes) if self.axes else 0
        shares = type(self.shares) is tuple and all(type(x) is float and 0 <= x <= 1 for x in self.shares)
        if not shares or len(self.shares) != cells or any(self.shares) != bool(cells):
            raise PlanError(
                "limit-shares-invalid",
                "The shares of a limit do not fit its cells.",
                "A limit has one share for each joint cell, from 0 to 1, and at least one is above 0.",
                "Give one such share for each joint cell.",
                "Nothing was read and nothing was charged.",
            )
        if self.epsilon_delta is not None:
            pair = type(self.epsilon_delta) is tuple and [*map(type, self.epsilon_delta)] == [float, float]
            if not pair or not (0 < self.epsilon_delta[0] < math.inf and 0 <= self.epsilon_delta[1] < 1):
                raise PlanError(
                    "limit-at-invalid",
                    "The pair (ε, δ) of a limit is out of range.",
                    "ε is a finite number above 0, and δ is at least 0 and below 1.",
                    "Give such a pair.",
                    "Nothing was read and nothing was charged.",
                )

    def relative_cost(self, loss: Loss) -> Loss:
        """Return the loss relative to the budgets of cells, with the errors of :meth:`Loss.relative_to_budgets`."""
        return loss.relative_to_budgets(self.axes, self.shares)

    def allows(self, loss: Loss) -> bool:
        """Return True if a loss is within the limit or equal to it.

        Raises:
            PlanError: The limit is not on pure ε, and the loss of a cell with budget 0 is above 0.
        """
        if self.epsilon is not None:
            # A loss with Gaussian noise has no pure ε, so a limit on pure ε never allows it.
            return loss.epsilon is not None and loss.epsilon <= self.epsilon
        counts = self.relative_cost(loss)
        return counts.rho <= self.rho or (
            self.epsilon_delta is not None and counts.delta_at(self.epsilon_delta[0]) <= self.epsilon_delta[1]
        )


@final
@dataclass(frozen=True)
class DeclaredSize:
    """The declared number of records of the data.

    Attributes:
        records: The number of records, at least 0.
        exactly: True if the data have exactly this number, and False if they have at most this number.

    Raises:
        PlanError: The number is not a whole number of at least 0, or `exactly` is not a boolean.
    """

    records: int
    exactly: bool

    def __post_init__(self) -> None:
        if type(self.records) is not int or self.records < 0 or type(self.exactly) is not bool:
            raise PlanError(
                "size-invalid",
                "A declared number of records is not a whole number of at least 0, with exactly = True or False.",
                "",
                "Give such a number.",
                "Nothing was read and nothing was charged.",
            )

    def refuse(self, records: int) -> None:
        """Raise DataError for data with more records, or with fewer if `exactly`; the message hides their number."""
        if records > self.records or (self.exactly and records != self.records):
            raise DataError(
                "size-misfits-data",
                f"The plan is for {'exactly' if self.exactly else 'at most'} {self.records:,} records, and the data "
                f"have {'another number' if self.exactly else 'more'}.",
                "",
                "Correct size, if the number is public, and plan again.",
                "Nothing was measured and nothing was charged.",
                place="size",
            )


@final
@dataclass(frozen=True, eq=False)
class Order:
    """All that `measure` needs to know of a measurement.

    Attributes:
        domain: The domain of the records.
        source: The public description of the data.
        unit: The protected unit.
        designs: The designs to measure.
        plan: The hash by which later orders can name this one.
        mechanism: The name of the mechanism in a ledger.
        limits: The limits on the cost.
        sizes: The declared numbers of records.
        `composed_with`: The hashes of plans measured on the same records, with which this one is composed.
        free: True if the charge must not raise the spent ρ of its account; its own cost is above 0.
        units: Further units that are charged, each on an account of its own.

    An order checks every field when it is made, and trusts none.

    Raises:
        PlanError: A field has another type, a subclass of its type, or a part that can change. There is no design, or
            one for another domain or another nesting of places. The claimed price of a design is not proven. A design
            requests the number of units with left-out records, and there is no id. A further unit has an id of its own.
            The pattern of a unit names something that is not an attribute of the domain, or an amount. The key
            `sum_within_unit` names something that is not an amount of the domain. A limit names designs or cells that
            do not exist. There is an exact size, and neighbours can have different numbers of records. A plan is not a
            hash, is named twice, or names itself among the plans on the same records. The mechanism has no printable
            name. Records are counted in parts and `scaled_designs` fails. Or counts of the declared number of records
            would not be exact (`max_records`).
    """

    domain: Domain
    source: DataSource
    unit: PrivacyUnit
    designs: tuple[Design, ...]
    plan: str
    mechanism: str
    limits: tuple[CostLimit, ...] = ()
    sizes: tuple[DeclaredSize, ...] = ()
    composed_with: tuple[str, ...] = ()
    free: bool = False
    units: tuple[PrivacyUnit, ...] = ()

    def __post_init__(self) -> None:
        self._check_kinds()
        if not self.designs:
            raise PlanError(
                "order-without-design",
                "The order has no design.",
                "An order without a design measures nothing.",
                "Give at least one design.",
                "Nothing was read and nothing was charged.",
            )
        for design in self.designs:
            # A price holds only for the domain whose attributes and amounts the design was made for.
            design.check(self.domain.sizes, self.domain.steps)
            # An order with an unproven claim cannot exist, so no data are read for one.
            design.check_claim(self.adjacency)
            design.check_totals(self.adjacency)
            for upper, lower, above in design.nested:
                if not self.domain.is_nested(upper, lower, above):
                    raise PlanError(
                        "places-nested-otherwise",
                        f"The plan assumes another nesting of the places of {lower!r} in those of {upper!r} than "
                        "the domain declares.",
                        "Its price holds only for the nesting in the domain.",
                        "Make the plan again for this domain.",
                        "Nothing was read and nothing was charged.",
                        place=lower,
                    )
        if self.unit.id is None and any(d.asks_left_out for d in self.designs):
            raise PlanError(
                "left-out-needs-id",
                "The plan asks for the number of units with left-out records, and no id is set.",
                "This number needs the id column of the protected unit.",
                "Set the id, or remove the question left_out.",
                "Nothing was read and nothing was charged.",
                place="id",
            )
        if any(u.id is not None and (u.name, u.bound) != (self.unit.name, self.unit.bound) for u in self.units):
            raise PlanError(
                "unit-with-another-id",
                "A further unit of the plan has an id of its own.",
                "Records are counted by one id, that of the protected unit.",
                "Give the further unit the id of the protected unit, or none.",
                "Nothing was read and nothing was charged.",
                place="units",
            )
        patterned = {a for u in (self.unit, *self.units) for a in u.promised}
        if not patterned <= set(self.domain):
            raise PlanError(
                "pattern-unknown-attribute",
                "The pattern of a unit names an attribute that the domain does not have.",
                "",
                "Name attributes of the domain in the pattern.",
                "Nothing was read and nothing was charged.",
                place="pattern",
            )
        if patterned & set(self.domain.steps):
            raise PlanError(
                "pattern-with-amount",
                "The pattern of a unit names an amount.",
                "The price of a pattern does not hold between the ends of an amount.",
                "Remove the amount from the pattern.",
                "Nothing was read and nothing was charged.",
                place="pattern",
            )
        summed = {a for u in (self.unit, *self.units) for a in u.sum_within_unit}
        if not summed <= set(self.domain.steps):
            raise PlanError(
                "sum-within-unit-unknown-amount",
                "The key sum_within_unit of a unit names a column that is not an amount of the domain.",
                "Merging adds up amounts of the domain.",
                "Name amounts of the domain in sum_within_unit.",
                "Nothing was read and nothing was charged.",
                place="sum_within_unit",
            )
        if any(not summed.isdisjoint(one.names) for one in self.domain.joint.values()):
            raise PlanError(
                "sum-within-unit-and-cuts",
                "The key sum_within_unit of a unit names an amount that the plan counts within cuts of its column.",
                "A sum of several records can lie outside the cell of the cuts in which each of them lies.",
                "Plan the amount without its cuts.",
                "Nothing was read and nothing was charged.",
                place="sum_within_unit",
            )
        self._check_limits()
        # Computed for their errors: they refuse the order here, and not only while data are counted.
        _ = self.scaled_designs, self.max_records()

    def _check_kinds(self) -> None:
        """Raise PlanError for a field that is not of its type, or that could change after its check."""
        kinds = {
            "domain": Domain,
            "source": DataSource,
            "unit": PrivacyUnit,
            "plan": str,
            "mechanism": str,
            "free": bool,
        }
        lists: dict[str, type] = {
            "limits": CostLimit,
            "sizes": DeclaredSize,
            "composed_with": str,
            "units": PrivacyUnit,
        }
        # The exact types: a subclass could return other values after the check.
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
                "order-field-type",
                f"The order has fields of another type: {', '.join(wrong)}.",
                "An order takes its fields in the types of the kernel, and in no subclass of one.",
                "Give these fields in the types of the kernel.",
                "Nothing was read and nothing was charged.",
            )
        for name in kinds.keys() | lists.keys():
            _refuse_changeable(name, getattr(self, name))
        if not all(map(is_digest, (self.plan, *self.composed_with))):
            raise PlanError(
                "order-plan-not-hash",
                "The order names a plan by something other than its hash.",
                "A hash has 64 hexadecimal digits in lower case.",
                "Name each plan by its hash.",
                "Nothing was read and nothing was charged.",
            )
        if self.plan in self.composed_with or len(set(self.composed_with)) < len(self.composed_with):
            raise PlanError(
                "order-plans-repeated",
                "The order names its own plan among the plans on the same records, or one plan twice.",
                "",
                "Name each other plan once.",
                "Nothing was read and nothing was charged.",
                place="composed_with",
            )
        if not is_name(self.mechanism):
            raise PlanError(
                "order-mechanism-not-printable",
                "The name of the mechanism is empty, is not printable, or has spaces around it.",
                "",
                "Give a printable name without spaces around it.",
                "Nothing was read and nothing was charged.",
                place="mechanism",
            )

    def _check_limits(self) -> None:
        """Raise PlanError for a limit on missing designs or cells, or for an exact size that is not public."""
        for limit in self.limits:
            if not {*limit.axes} <= self.domain.sizes.items() or max(limit.designs or (0,)) >= len(self.designs):
                raise PlanError(
                    "limit-misfits-order",
                    "A limit names a design that the order does not have, or cells that the domain does not have.",
                    "",
                    "Name designs of the order and cells of attributes of the domain.",
                    "Nothing was read and nothing was charged.",
                )
        if any(size.exactly for size in self.sizes) and not self.adjacency.fixes_size:
            raise PlanError(
                "exact-size-not-public",
                "The plan states an exact number of records, and neighbouring data can have different numbers.",
                "Refusing data of another number would reveal that a record came or went.",
                "State the size as an upper bound, or plan for neighbours that replace a record.",
                "Nothing was read and nothing was charged.",
                place="size",
            )

    def max_records(self, times: int = 1) -> int | None:
        """Return the largest number of records that a release accepts; None if every number is counted exactly.

        The result is `max_records` of the source, or the largest number of records whose counts fit into 64-bit
        integers, if that is less. A record adds at most the product of the steps of all amounts in a margin to a count.
        For shares of records, this product is multiplied by the parts of a record. Data with more records are refused.

        Args:
            times: The number of periods whose counts are added up; at least 1.

        Raises:
            PlanError: The largest number whose counts fit is below both `max_records` and `ENOUGH` = 2³¹.
        """
        steps, parts = self.domain.steps, self.unit.parts
        if not steps and parts == 1:
            return None
        # A record adds at most Σ_s K_s steps of an amount to a count, and 1 along any other attribute.
        products = (math.prod(sum(steps.get(a, (1,))) for a in m) for d in self.designs for m in d.margins())
        largest, declared = max(products, default=1), self.source.max_records
        exact = (INT64_SAFE_BOUND - 1) // (largest * parts * times)
        if exact < min(declared, ENOUGH):
            raise PlanError(
                "too-many-records-for-amounts",
                f"A record can add {largest:,} steps of amounts to a count, and counts hold at most {exact:,} such "
                "records.",
                f"max_records of the source is {declared:,}.",
                f"Declare a larger step, or set max_records to {exact:,} or less if that is public.",
                "Nothing was read and nothing was charged.",
                place="max_records",
            )
        return min(exact, declared)

    @property
    def adjacency(self) -> Adjacency:
        """The neighbour relation of the order."""
        return self.domain.adjacency(self.source, self.unit)

    @property
    def fixes_size(self) -> bool:
        """True if a release reveals the number of records: an exact number is declared, or a design reveals it."""
        return any(s.exactly for s in self.sizes) or any(d.fixes_size(self.adjacency) for d in self.designs)

    @cached_property
    def account(self) -> Account:
        """The account that is charged: the data source and the privacy unit."""
        return account(self.source, self.unit, self.domain)

    @cached_property
    def scaled_designs(self) -> tuple[Design, ...]:
        """The designs as they are drawn: for records counted in `parts` parts, noise is `parts` times as large.

        Raises:
            PlanError: Records are counted in parts, and a design measures no shares of records, the size is declared,
                or there is an amount.
        """
        if self.unit.parts == 1:
            return self.designs
        if self.sizes or self.domain.steps:
            raise PlanError(
                "shares-with-size-or-amount",
                "The plan counts shares of records, and declares a size or an amount.",
                "Shares of records give neither the number of records nor their amounts.",
                "Count records instead of shares, or remove the size and the amounts.",
                "Nothing was read and nothing was charged.",
            )
        return tuple(d.scaled_by(self.unit.parts) for d in self.designs)

    def without_cache(self) -> Self:
        """Return an order of the same integers, without cached results, in read-only arrays.

        Raises:
            PlanError: A design holds an object that can change, or is not the kernel's own.
        """
        designs = tuple(d.without_cache(self.adjacency) for d in self.designs)
        _refuse_changeable("designs", designs)
        # `replace` calls the constructor, so every check of an order runs on these designs.
        return replace(self, designs=designs)

    @cached_property
    def losses(self) -> tuple[Loss, ...]:
        """The cost of each design for one protected unit."""
        return tuple(d.loss(self.adjacency) for d in self.designs)

    @cached_property
    def loss(self) -> Loss:
        """The exact cost of all designs for one protected unit."""
        return sum(self.losses, Loss.zero())

    def cost(self, unit: PrivacyUnit) -> Loss | None:
        """Return the exact cost of all designs for another unit, from the same integers; None if nothing bounds it.

        If nothing is proven of a design for the other unit, a bound is the cost of k changes of its own unit. They keep
        to no pattern: k²ρ and kε, with k of :meth:`Adjacency.changes` (:meth:`Loss.group_loss`).

        Three cases have no bound. The first: the release reveals the number of records (`fixes_size`), and records of
        the unit can be added or removed. The second: :meth:`Adjacency.for_unit` has no relation, for example for an id
        by which these data are not counted. The third: nothing is proven of a design for the other unit, and no number
        of changes is enough or the design requests left-out records.

        The pattern of another unit counts only where it is enforced here.

        Args:
            unit: The other unit.
        """
        other = self.adjacency.for_unit(unit, *self.units)
        if other is None or (self.fixes_size and not other.fixes_size):
            return None
        # A pattern that the counting does not enforce may be about other attributes of the same names.
        other = other if other.unit.id is not None else other.without_pattern
        losses = [x for i in range(len(self.designs)) if (x := self._cost(i, other)) is not None]
        return self._keyed(sum(losses, Loss.zero()), other.unit) if len(losses) == len(self.designs) else None

    def losses_of_units(self, accounts: Iterable[Account]) -> dict[Account, Loss]:
        """Return the exact costs for other accounts of the same data source, where they are bounded.

        An account for the order's own unit whose pattern binds other cells counts as another account.

        Args:
            accounts: The accounts of the ledger.

        Raises:
            PlanError: Nothing bounds the cost for a further unit of the order.
        """
        ours = [account(self.source, unit, self.domain) for unit in self.units]
        others = [a for a in dict.fromkeys([*accounts, *ours]) if a.source == self.account.source and a != self.account]
        # The account may promise other cells of an attribute of that name, or other records: then more are neighbours.
        keys = {(name, cell_key(self.domain, name, self.source)) for name in self.domain}
        costs = {a: self.cost(replace(a.unit, within=tuple(name for name, _ in a.within & keys))) for a in others}
        for a in ours:
            # A unit whose account is the order's own is not in `costs`: the order's loss bounds it.
            if costs.get(a, self.loss) is None:
                raise PlanError(
                    "cost-of-unit-unbounded",
                    f"Nothing bounds the privacy cost of the plan for {a.sentence!r}.",
                    "The plan publishes the number of records, or totals counted from these data, which it can change.",
                    "Remove that unit, or give it the neighbour relation of the protected unit.",
                    "Nothing was read and nothing was charged.",
                    place="units",
                )
        return {a: loss for a, loss in costs.items() if loss is not None}

    def _cost(self, i: int, adjacency: Adjacency) -> Loss | None:
        """Return the cost of design i for the neighbours of another unit; None if nothing bounds it."""
        # A design raises PlanError where nothing is proven for a relation. Then group privacy bounds its cost.
        with contextlib.suppress(FitnoiseError):
            return self.designs[i].loss(adjacency)
        base = self.adjacency.without_pattern  # A change of another unit does not keep to the pattern.
        times = base.changes(adjacency)
        if times is None or self.designs[i].asks_left_out:  # Records of several persons are no change of one.
            return None
        return self.designs[i].loss(base).group_loss(times)

    def against_limits(self) -> Iterator[tuple[CostLimit, Loss]]:
        """Yield every limit with the loss that it limits."""
        for limit in self.limits:
            indices = range(len(self.losses)) if limit.designs is None else limit.designs
            yield limit, sum((self.losses[i] for i in indices), Loss.zero())

    def ledger_loss(self) -> Loss:
        """Return the loss as a ledger stores it: each axis is named by all that determines its cells.

        For a unit that can have several records, this includes which records are left out. Two plans with different
        such rules can count different records of one unit. Then their axes differ, and their largest costs add up.
        """
        return self._keyed(self.loss, self.unit)

    def _keyed(self, loss: Loss, unit: PrivacyUnit) -> Loss:
        left_out = not unit.is_record
        return loss.with_axis_names({a: axis_key(self.domain, a, self.source, left_out=left_out) for a, _ in loss.axes})

    def detail(self) -> dict[str, Any]:
        """Return the details of the ledger's entry, stored next to the cost: JSON values without floats."""
        out: dict[str, Any] = {"plan": self.plan, "mechanism": self.mechanism, "rho": str(self.loss.rho)}
        gaussian = self.loss.gaussian_mu_squared
        # Rounded up, so that the entry never states too small a μ′².
        out |= {} if gaussian is None else {"gaussian": str(ceil_dyadic(gaussian))}
        # Named by the kernel, so that no charge leaves its ledger without it.
        out |= {"unprotected": list(self.unit.within)} if self.fixes_size else {}
        for design in self.designs:
            for key, values in design.ledger_detail(self.adjacency).items():
                out.setdefault(key, []).extend(values)
        return out


def _refuse_changeable(name: str, value: object) -> None:
    """Raise PlanError for a value of an order that has a part that can change, or is not the kernel's own."""
    wrong = changeable(value)
    if wrong is not None:
        raise PlanError(
            "order-field-changeable",
            f"The field {name} of an order holds an object of type {wrong}.",
            "Such an object could change after the price was computed, or does not belong to the kernel.",
            "Give a value of a type of the kernel that cannot change.",
            "Nothing was read and nothing was charged.",
        )


def _are_axes(axes: Any) -> bool:
    """Return True for a tuple of pairs: different names, each with a number of values."""
    pairs = type(axes) is tuple and all(type(x) is tuple and [*map(type, x)] == [str, int] for x in axes)
    return pairs and all(n > 0 for _, n in axes) and len({a for a, _ in axes}) == len(axes)


def account(source: DataSource, unit: PrivacyUnit, domain: Domain) -> Account:
    """Return the ledger account of the people in a data source, for a unit whose promises concern cells of a domain.

    Args:
        source: The public description of the data.
        unit: The privacy unit.
        domain: The domain of the records; it has all attributes of the promised pattern and of `within`.
    """
    # With an id each release enforces its own pattern, so the account promises no cells.
    bound = () if unit.id is not None else unit.promised
    # Totals count the records that meet the conditions. A record can keep its cells and not meet other conditions.
    cells = ((name, cell_key(domain, name, source, left_out=bool(unit.within))) for name in bound)
    return Account(source.population, unit, tuple(cells))
