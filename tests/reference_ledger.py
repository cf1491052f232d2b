"""What a ledger says after any sequence of caps and charges: Fractions and dictionaries, no file, none of its code."""

import itertools
import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

STEP = Fraction(1, 2**64)


def up(x):
    """The least multiple of 2⁻⁶⁴ that is at least x."""
    return -(-x // STEP) * STEP


def at(axes, values, cell):
    """Where values are in C order over axes (key, size): the one of a cell, {key: position}."""
    place = 0
    for key, size in axes:
        place = place * size + cell[key]
    return values[place]


def dearest(tables):
    """The largest sum of tables (axes, values) over all joint cells of their axes."""
    sizes = dict(axis for axes, _ in tables for axis in axes)
    cells = (dict(zip(sizes, c, strict=True)) for c in itertools.product(*map(range, sizes.values())))
    return max(sum(at(*table, cell) for table in tables) for cell in cells)


@dataclass(frozen=True)
class Cost:
    """Of one release: ρ, where axes are None; ρ in each of their joint cells; or, of what is pure, ε."""

    costs: tuple = ()
    axes: tuple | None = None
    epsilon: Fraction | None = None

    @property
    def rho(self):
        return up(max(self.costs) if self.epsilon is None else self.epsilon**2 / 2)

    @property
    def table(self):
        return None if self.axes is None else (self.axes, [up(x) for x in self.costs])

    @property
    def words(self):
        if self.axes is None:
            return {} if self.epsilon is None else {"epsilon": str(self.epsilon)}
        axes, values = self.table
        return {"profile": {"axes": [list(axis) for axis in axes], "values": [int(x / STEP) for x in values]}}


NOTHING = Cost(epsilon=Fraction(0))


def changes(text, of, declared):
    """How many changes of one unit make any of another's, in data declared for a third; None where that is not known.

    A text is read by hand: a name, at most how many records, and whether a record is replaced.
    """
    form = r"one (\w+)(?: \(at most (\d+) records?\))?, (add-or-remove|replace)-one"
    said = [re.fullmatch(form, t) for t in (declared, text, of)]
    if None in said or any(s[2] is None and s[1] != "record" for s in said):
        return None
    (same, least, _), (name, mine, relation), (other, theirs, wanted) = ((s[1], int(s[2] or 1), s[3]) for s in said)
    mine, theirs = (max(n, least) if called == same else n for n, called in ((mine, name), (theirs, other)))
    times = -(-theirs // mine)
    if relation == wanted == "replace" and (mine > 1 or theirs == 1):
        return times
    if relation == "replace" and mine == 1:
        return None
    return times * (2 if relation != "replace" and wanted == "replace" else 1)


@dataclass(frozen=True, eq=False)
class Charge:
    """A cost, what it is for, the account's charges before it on the same records, and what it costs other units."""

    account: Any
    cost: Cost
    plan: str | None
    beside: tuple
    also: dict

    def under(self, account):
        """What it costs another unit: as it was stated, or the least bound; None where nothing bounds it."""
        stated = {self.account.unit: self.cost, **self.also}
        if account.unit in stated:
            return stated[account.unit]
        found = []
        for unit, cost in stated.items():
            times = changes(unit, account.unit, self.account.unit)
            if times is not None and cost.epsilon is not None:
                found.append(Cost(epsilon=times * cost.epsilon))
            elif times is not None:
                found.append(Cost((times**2 * cost.rho,)))
        return min(found, key=lambda cost: (cost.rho, cost.epsilon or 0), default=None)


class Reference:
    """Caps and charges of every account, and what they come to.

    lines: all that was written: what the entries of a ledger say of themselves, but for times and digests.
    """

    def __init__(self):
        self.lines = []
        self.charges = []
        self.caps = {}

    def cap(self, account, rho=None, epsilon=None, reason=""):
        self.caps[account] = None if rho is None else up(rho), epsilon
        self._write(
            "cap", account, epsilon**2 / 2 if rho is None else up(rho), epsilon, {"reason": reason} if reason else {}
        )

    def charge(self, account, cost, plan, beside=(), also=()):
        """Written as a charge, or as a refusal; which of the two."""
        also = dict(also)
        kind = "charge" if self.quote(account, cost, beside, also)["fits"] else "refusal"
        words = {} if plan is None else {"plan": plan}
        words |= {key: x for key, x in cost.words.items() if key == "profile"}
        units = {unit: {"rho": str(x.rho)} | x.words for unit, x in also.items()}
        words |= ({"beside": list(beside)} if beside else {}) | ({"units": units} if units else {})
        self._write(kind, account, cost.rho, cost.epsilon, words)
        if kind == "charge":
            self.charges.append(Charge(account, cost, plan, self._places(account, beside), also))
        return kind

    def quote(self, account, cost, beside=(), also=()):
        """What a charge would do to its account, and whether it fits all accounts of the name."""
        asked = Charge(account, cost, None, self._places(account, beside), dict(also))
        own, *others = (self.under(a, asked) for a in dict.fromkeys([account, *self.accounts(account)]))
        return own | {"fits": own["fits"] and all(other["fits"] for other in others)}

    def balance(self, account):
        """What has been spent."""
        return self.under(account, Charge(account, NOTHING, None, (), {}))

    def under(self, account, asked):
        """What a charge would do to an account of the same name."""
        before = [c for c in self.charges if c.account.source == account.source]
        price, spent = asked.under(account), self.spent(before, account)
        with_it = next(group for group in self.groups([*before, asked]) if asked in group)
        alone = self.spent([c for c in with_it if c is not asked], account)
        together = self.spent(with_it, account)
        increase = None if None in (alone, together) else together - alone
        epsilons = [paid and paid.epsilon for paid in (c.under(account) for c in before)]
        total = None if None in epsilons else sum(epsilons, Fraction(0))
        rho, epsilon = self.caps.get(account, (None, None))
        if epsilon is not None:
            left = None if total is None else epsilon - total
            fits = None not in (left, price) and price.epsilon is not None and price.epsilon <= left
            rho, remaining = epsilon**2 / 2, max(left or Fraction(0), Fraction(0)) ** 2 / 2
        elif rho is not None:
            fits = None not in (spent, increase) and spent + increase <= rho
            remaining = Fraction(0) if spent is None else max(rho - spent, Fraction(0))
        else:
            fits, remaining = True, None
        return {
            "account": account,
            "rho": price and price.rho,
            "spent": spent,
            "cap": rho,
            "remaining": remaining,
            "fits": fits,
            "increase": increase,
            "epsilon_spent": total,
            "epsilon_cap": epsilon,
        }

    def accounts(self, account):
        """Those of a name, in order of appearance."""
        return [a for a in dict.fromkeys(line["account"] for line in self.lines) if a.source == account.source]

    def own(self, account):
        """The charges to an account."""
        return [c for c in self.charges if c.account == account]

    def fault(self, account, cost, beside=()):
        """Why nothing can be said of such a charge, in words of the ledger's; None where something can."""
        if beside and cost.table is None:
            return "needs a profile"
        for plan in beside:
            costs = [c.cost for c in self.own(account) if c.plan == plan]
            if len(costs) != 1:
                return f"was released {len(costs)} times" if costs else "no charge of"
            if costs[0].table is None:
                return "it has no profile"
        known = self.accounts(account)
        return "open one first" if account not in known and any(a in self.caps for a in known) else None

    def unopened(self, account):
        """Whether it is not there, and nothing bounds what was charged under its name."""
        return account not in self.accounts(account) and self.balance(account)["spent"] is None

    def together(self, account):
        """The charges of an account if all are on the same records; else why nothing can stand beside all of them."""
        groups = self.groups(self.own(account))
        if len(groups) != 1:
            return f"has {len(groups)} releases, or groups of them"
        if any(c.plan is None for c in groups[0]):
            return "names no plan"
        return groups[0] if all(c.cost.table for c in groups[0]) else "it has no profile"

    @staticmethod
    def groups(charges):
        """Charges that were promised to be on the same records, directly or by way of others."""
        label = {}
        for i, charge in enumerate(charges):
            old = {label[j] for j, other in enumerate(charges[:i]) if other in charge.beside}
            label = {j: i if name in old else name for j, name in label.items()} | {i: i}
        return [[charges[i] for i in label if label[i] == name] for name in sorted(set(label.values()))]

    @classmethod
    def spent(cls, charges, account):
        """Alone a charge costs its ρ; several on the same records what their dearest joint cell costs, or the sum."""
        total = Fraction(0)
        for group in cls.groups(charges):
            costs = [c.under(account) for c in group]
            if None in costs:
                return None
            cells = len(costs) > 1 and all(c.table for c in costs)
            total += dearest([c.table for c in costs]) if cells else sum(c.rho for c in costs)
        return total

    def _places(self, account, plans):
        return tuple(c for c in self.own(account) if c.plan in plans)

    def _write(self, kind, account, rho, epsilon, words):
        detail = words | ({} if epsilon is None else {"epsilon": str(epsilon)})
        self.lines.append({"kind": kind, "account": account, "rho": rho, "epsilon": epsilon, "detail": detail})
