"""What a ledger says after any sequence of caps and charges: Fractions and dictionaries, no file, none of its code."""

import itertools
from collections import defaultdict
from dataclasses import dataclass
from fractions import Fraction

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


NOTHING = Cost(epsilon=Fraction(0))


@dataclass(frozen=True)
class Charge:
    """A cost, what it is for, and which of the account's charges before it were on the same records."""

    cost: Cost
    plan: str | None
    beside: tuple


class Reference:
    """Caps and charges of every account, and what they come to.

    lines: all that was written: what the entries of a ledger say of themselves, but for times and digests.
    """

    def __init__(self):
        self.lines = []
        self.charges = defaultdict(list)
        self.caps = {}

    def cap(self, account, rho=None, epsilon=None, reason=""):
        self.caps[account] = None if rho is None else up(rho), epsilon
        self._write(
            "cap", account, epsilon**2 / 2 if rho is None else up(rho), epsilon, {"reason": reason} if reason else {}
        )

    def charge(self, account, cost, plan, beside=()):
        """Written as a charge, or as a refusal; which of the two."""
        kind = "charge" if self.quote(account, cost, beside)["fits"] else "refusal"
        words = {} if plan is None else {"plan": plan}
        if cost.table:
            axes, values = cost.table
            words["profile"] = {"axes": [list(axis) for axis in axes], "values": [int(x / STEP) for x in values]}
        self._write(kind, account, cost.rho, cost.epsilon, words | ({"beside": list(beside)} if beside else {}))
        if kind == "charge":
            self.charges[account].append(Charge(cost, plan, self._places(account, beside)))
        return kind

    def quote(self, account, cost, beside=()):
        """What a charge would do."""
        before = self.charges[account]
        spent = self.spent(before)
        increase = self.spent([*before, Charge(cost, None, self._places(account, beside))]) - spent
        epsilons = [c.cost.epsilon for c in before]
        total = None if None in epsilons else sum(epsilons, Fraction(0))
        rho, epsilon = self.caps.get(account, (None, None))
        if epsilon is not None:
            left = None if total is None else epsilon - total
            fits = left is not None and cost.epsilon is not None and cost.epsilon <= left
            rho, remaining = epsilon**2 / 2, max(left or Fraction(0), Fraction(0)) ** 2 / 2
        elif rho is not None:
            fits, remaining = spent + increase <= rho, max(rho - spent, Fraction(0))
        else:
            fits, remaining = True, None
        return {
            "account": account,
            "rho": cost.rho,
            "spent": spent,
            "cap": rho,
            "remaining": remaining,
            "fits": fits,
            "increase": increase,
            "epsilon_spent": total,
            "epsilon_cap": epsilon,
        }

    def fault(self, account, cost, beside=()):
        """Why nothing can be said of such a charge, in words of the ledger's; None where something can."""
        if beside and cost.table is None:
            return "needs a profile"
        for plan in beside:
            costs = [c.cost for c in self.charges[account] if c.plan == plan]
            if len(costs) != 1:
                return f"was released {len(costs)} times" if costs else "no charge of"
            if costs[0].table is None:
                return "it has no profile"
        return None

    def together(self, account):
        """The charges of an account if all are on the same records; else why nothing can stand beside all of them."""
        groups = self.groups(self.charges[account])
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
            old = {label[j] for j in charge.beside}
            label = {j: i if name in old else name for j, name in label.items()} | {i: i}
        return [[charges[i] for i in label if label[i] == name] for name in sorted(set(label.values()))]

    @classmethod
    def spent(cls, charges):
        """Alone a charge costs its ρ; several on the same records what their dearest joint cell costs."""
        groups = cls.groups(charges)
        return sum((g[0].cost.rho if len(g) == 1 else dearest([c.cost.table for c in g]) for g in groups), Fraction(0))

    def _places(self, account, plans):
        return tuple(i for i, c in enumerate(self.charges[account]) if c.plan in plans)

    def _write(self, kind, account, rho, epsilon, words):
        detail = words | ({} if epsilon is None else {"epsilon": str(epsilon)})
        self.lines.append({"kind": kind, "account": account, "rho": rho, "epsilon": epsilon, "detail": detail})
