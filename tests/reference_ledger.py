"""A reference for a ledger after any caps and charges: Fractions and dictionaries, no file, none of its code."""

import itertools
import json
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from fitnoise.kernel.privacy import HALF_PI, pure_mu_squared

STEP = Fraction(1, 2**64)


def up(x):
    """The least multiple of 2⁻⁶⁴ that is at least x."""
    return -(-x // STEP) * STEP


def value_at(axes, values, cell):
    """Return the value of a cell, {key: position}, from values in C order over axes (key, size)."""
    index = 0
    for key, size in axes:
        index = index * size + cell[key]
    return values[index]


def largest_cost(tables):
    """The largest sum of tables (axes, values) over all joint cells of their axes."""
    sizes = dict(axis for axes, _ in tables for axis in axes)
    cells = (dict(zip(sizes, c, strict=True)) for c in itertools.product(*map(range, sizes.values())))
    return max(sum(value_at(*table, cell) for table in tables) for cell in cells)


@dataclass(frozen=True)
class Cost:
    """The cost of one release: ρ if axes are None, and otherwise ρ in each of their joint cells; for pure noise also ε.

    mu: μ² and its largest amount for each ρ; None if it is not known.
    """

    costs: tuple
    axes: tuple | None = None
    epsilon: Fraction | None = None
    mu: tuple | None = None

    @property
    def rho(self):
        return up(max(self.costs))

    @property
    def table(self):
        return None if self.axes is None else (self.axes, [up(x) for x in self.costs])

    @property
    def mu_squared(self):
        """The stated μ², or the one that ε implies."""
        if self.mu is None:
            return None if self.epsilon is None else up(pure_mu_squared(self.epsilon))
        return up(self.mu[0])

    @property
    def details(self):
        stated = {} if self.epsilon is None else {"epsilon": str(self.epsilon)}
        if self.mu is not None:
            stated |= {"mu_squared": str(up(self.mu[0])), "mu_rate": str(up(self.mu[1]))}
        if self.axes is None:
            return stated
        axes, values = self.table
        return stated | {"profile": {"axes": [list(axis) for axis in axes], "values": [int(x / STEP) for x in values]}}

    def times(self, k):
        """Return the cost of k changes, one after the other."""
        epsilon, mu = self.epsilon and k * self.epsilon, self.mu and (k**2 * up(self.mu[0]), self.mu[1])
        rho = k**2 * self.rho
        return Cost((rho if epsilon is None else min(rho, up(epsilon**2 / 2)),), None, epsilon, mu)


NOTHING = Cost((Fraction(0),), None, Fraction(0), (Fraction(0), 2 * HALF_PI))


def changes(source, target, declared, stated):
    """Return the number of changes of one unit that make any change of another, or None if no number does.

    The data are declared for a third unit. The function parses keys itself: a name, the largest number of records, a
    pattern or none, and the neighbours. The data have as many records of a unit as any declaration or stated price of
    its name gives.
    """
    mine, theirs, data_unit = (json.loads(account.key) for account in (source, target, declared))
    price_units = [json.loads(account.key) for account in stated]
    min_records = max(mine["records"], data_unit["records"] if data_unit["name"] == mine["name"] else 1)
    max_records = max(theirs["records"], *(x["records"] for x in price_units if x["name"] == theirs["name"]), 1)
    keeps_pattern = min_records > 1 and mine.keys() & {"once_per", "per_value", "separation", "fixed"}
    times = max_records if keeps_pattern else -(-max_records // min_records)
    if mine["neighbours"] == theirs["neighbours"] == "replace-one" and (min_records > 1 or max_records == 1):
        return times
    if mine["neighbours"] == "replace-one" and min_records == 1:
        return None
    return times * (2 if mine["neighbours"] != "replace-one" and theirs["neighbours"] == "replace-one" else 1)


@dataclass(frozen=True, eq=False)
class Charge:
    """A cost, what it is for, the account's charges before it on the same records, and what it costs other units."""

    account: Any
    cost: Cost
    plan: str | None
    composed_plans: tuple
    also: dict
    prices: dict = field(default_factory=dict, repr=False)
    """Costs for other units that were computed before."""

    def under(self, account):
        """Return the cost for another unit: the stated one, or the least bound; None if nothing bounds it."""
        if account not in self.prices:
            self.prices[account] = self._compute(account)
        return self.prices[account]

    def _compute(self, account):
        stated = {self.account: self.cost, **self.also}
        if account in stated:
            return stated[account]
        costs = []
        for other, cost in stated.items():
            times = changes(other, account, self.account, stated)
            if times is not None:
                costs.append(cost.times(times))
        return min(
            costs, key=lambda cost: (cost.rho, cost.epsilon or 0, up(cost.mu[0]) if cost.mu else 0), default=None
        )


class Reference:
    """Caps and charges of every account, and their totals.

    lines: Contents of the entries of a ledger, without times and digests.
    """

    def __init__(self):
        self.lines = []
        self.charges = []
        self.caps = {}

    def cap(self, account, rho=None, epsilon=None, mu_squared=None, reason=""):
        mu_squared = None if mu_squared is None else up(mu_squared)
        rho_cap = epsilon**2 / 2 if epsilon is not None else mu_squared / 2 if mu_squared is not None else up(rho)
        self.caps[account] = rho_cap, epsilon, mu_squared
        stated = {"epsilon": epsilon, "mu_squared": mu_squared}
        details = {key: str(x) for key, x in stated.items() if x is not None}
        self._write("cap", account, rho_cap, details | ({"reason": reason} if reason else {}))

    def charge(self, account, cost, plan, composed=(), also=()):
        """Written as a charge, or as a refusal; which of the two."""
        also = dict(also)
        kind = "charge" if self.quote(account, cost, composed, also)["fits"] else "refusal"
        details = {} if plan is None else {"plan": plan}
        details |= cost.details
        units = [{"unit": json.loads(a.key), "rho": str(x.rho)} | x.details for a, x in also.items()]
        details |= ({"composed_with": list(composed)} if composed else {}) | ({"units": units} if units else {})
        self._write(kind, account, cost.rho, details)
        if kind == "charge":
            self.charges.append(Charge(account, cost, plan, self._places(account, composed), also))
        return kind

    def quote(self, account, cost, composed=(), also=()):
        """Return the effect of a charge on its account; it fits if it fits all accounts of the name."""
        new_charge = Charge(account, cost, None, self._places(account, composed), dict(also))
        effect, *others = (self.under(a, new_charge) for a in dict.fromkeys([account, *self.accounts(account)]))
        repeats = [x["further_releases"] for x in (effect, *others) if x["further_releases"] is not None]
        return effect | {
            "fits": effect["fits"] and all(x["fits"] for x in others),
            "further_releases": min(repeats, default=None),
        }

    def balance(self, account):
        """Return the balance of an account: a quote for a charge of nothing."""
        return self.under(account, Charge(account, NOTHING, None, (), {}))

    def under(self, account, new_charge):
        """Return the effect of a charge on an account of the same name."""
        before = [c for c in self.charges if c.account.source == account.source]
        price = new_charge.under(account)
        with_it = next(group for group in self.groups([*before, new_charge]) if new_charge in group)

        def counted(way):
            """Return the amount spent, its increase, and its increase without other charges on the same records."""
            spent = self.spent(before, account, way)
            rest, joint = (self.spent(x, account, way) for x in ([c for c in with_it if c is not new_charge], with_it))
            return spent, None if None in (rest, joint) else joint - rest, self.spent([new_charge], account, way)

        ways = {"rho": counted(self.rho_of), "epsilon": counted(self.epsilon_of), "mu": counted(self.mu_of)}
        rho, epsilon, mu = self.caps.get(account, (None, None, None))
        fits, remaining, repeats = True, None, None
        if rho is not None:
            way, limit = ("epsilon", epsilon) if epsilon is not None else ("mu", mu) if mu is not None else ("rho", rho)
            spent, increase, separate = ways[way]
            fits = None not in (spent, increase) and spent + increase <= limit
            unspent = Fraction(0) if spent is None else max(limit - spent, Fraction(0))
            remaining = {"epsilon": unspent**2 / 2, "mu": unspent / 2, "rho": unspent}[way]
            repeats = unspent // separate if separate else 0
        return {
            "account": account,
            "rho": price and price.rho,
            "spent": ways["rho"][0],
            "cap": rho,
            "remaining": remaining,
            "fits": fits,
            "increase": ways["rho"][1],
            "epsilon_spent": ways["epsilon"][0],
            "epsilon_cap": epsilon,
            "mu_squared_spent": ways["mu"][0],
            "mu_squared_cap": mu,
            "further_releases": repeats,
            "share": None,
        }

    def accounts(self, account):
        """Those of a name, in order of appearance."""
        return [a for a in self.all_accounts() if a.source == account.source]

    def all_accounts(self):
        """Those of lines, and of the other units that charges state, in order of appearance."""
        out = {}
        for line in self.lines:
            account, units = line["account"], [] if line["kind"] == "refusal" else line["detail"].get("units", [])
            out |= dict.fromkeys(
                [account, *(type(account).parse(account.source, unit_cost["unit"]) for unit_cost in units)]
            )
        return list(out)

    def charges_to(self, account):
        """The charges to an account."""
        return [c for c in self.charges if c.account == account]

    def fault(self, account, cost, composed=()):
        """Return the code with which the ledger refuses such a charge; None where it does not."""
        if composed and cost.table is None:
            return "ledger.composed-plans-need-profile"
        for plan in composed:
            costs = [c.cost for c in self.charges_to(account) if c.plan == plan]
            if len(costs) != 1:
                return f"ledger.composed-plan-{'released-again' if costs else 'not-charged'}"
            if costs[0].table is None:
                return "ledger.entry-without-profile"
        accounts = self.accounts(account)
        return (
            "ledger.account-beside-cap" if account not in accounts and any(a in self.caps for a in accounts) else None
        )

    def unopened(self, account):
        """Return True if the account does not exist, and nothing bounds the charges under its name."""
        return account not in self.accounts(account) and self.balance(account)["spent"] is None

    def joint_charges(self, account):
        """Return the charges of an account if all are on the same records; else the code of the refusal."""
        groups = self.groups(self.charges_to(account))
        if len(groups) != 1:
            return "ledger.releases-not-on-same-records"
        if any(c.plan is None for c in groups[0]):
            return "ledger.entry-without-plan"
        return groups[0] if all(c.cost.table for c in groups[0]) else "ledger.entry-without-profile"

    @staticmethod
    def groups(charges):
        """Charges that were promised to be on the same records, directly or by way of others."""
        label = {}
        for i, charge in enumerate(charges):
            old = {label[j] for j, other in enumerate(charges[:i]) if other in charge.composed_plans}
            label = {j: i if name in old else name for j, name in label.items()} | {i: i}
        return [[charges[i] for i in label if label[i] == name] for name in sorted(set(label.values()))]

    @classmethod
    def spent(cls, charges, account, way):
        """The sum over groups on the same records, of what each costs in a way; None where one is not known."""
        costs = [[c.under(account) for c in group] for group in cls.groups(charges)]
        if any(None in group for group in costs):
            return None
        totals = [way(group) for group in costs]
        return None if None in totals else sum(totals, Fraction(0))

    @staticmethod
    def rho_of(costs):
        """Return ρ of charges: of their costliest joint cell for several on the same records, or the sum."""
        cells = len(costs) > 1 and all(c.table for c in costs)
        return largest_cost([c.table for c in costs]) if cells else sum(c.rho for c in costs)

    @staticmethod
    def epsilon_of(costs):
        """Return the sum of ε if all charges are pure."""
        return None if any(c.epsilon is None for c in costs) else sum(c.epsilon for c in costs)

    @classmethod
    def mu_of(cls, costs):
        """The sum, or as much as there is at most for their ρ."""
        squares = [c.mu_squared for c in costs]
        if None in squares:
            return None
        cells = len(costs) > 1 and all(c.table and c.mu for c in costs)
        rates = [up(c.mu[1]) for c in costs if c.mu]
        return min(sum(squares), up(max(rates) * cls.rho_of(costs))) if cells else sum(squares)

    def _places(self, account, plans):
        return tuple(c for c in self.charges_to(account) if c.plan in plans)

    def _write(self, kind, account, rho, details):
        stated = {key: Fraction(details[key]) if key in details else None for key in ("epsilon", "mu_squared")}
        self.lines.append({"kind": kind, "account": account, "rho": rho, "detail": details} | stated)
