"""What releases cost one protected unit, exact, whatever they measured. Part of the trust kernel.

A :class:`Loss` is computed by a design from its integers, added up over the designs of a release, and charged. Two
kinds of promises are kept apart in it, and each is as strong as it was proven: ρ-zCDP of Gaussian noise, cell by cell
where neighbours add or remove a record (:mod:`fitnoise.kernel.profiles`), and pure ε. Pure promises imply concentrated
ones: ε-differential privacy is ε²/2-zCDP (Bun and Steinke 2016, Proposition 1.4), and ρ adds.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Self, final

import numpy as np
from numpy.typing import NDArray

from fitnoise.errors import LedgerError, PlanError
from fitnoise.kernel import privacy
from fitnoise.kernel.profiles import Profile

PROFILE_CELLS = 4096
"""Structured cells up to which the ledger keeps what each costs (about 80 kB); beyond, the largest stands for all."""

Axes = tuple[tuple[str, int], ...]
"""Attributes by whose joint cells something is told, each with its number of values."""


@final
@dataclass(frozen=True)
class Loss:
    """What a release, or several on the same records, cost one protected unit, exact.

    axes: the attributes by whose joint cells the cost is known, no name twice.
    costs: ρ of what is not pure, of a unit of which all records lie in that cell; C order, length Π sizes.
    pure: ε of every answer that is purely differentially private, in increasing order.
    by_cell: whether a unit with records in several cells pays no more than the dearest of them: so where neighbours add
        or remove a record. Otherwise `costs` is one number, and says nothing of cells.

    Callers ask its properties and never what kind it is: another representation of the same loss (a privacy-loss curve,
    μ²) can stand beside ρ without any of them changing.

    Raises:
        LedgerError: a cost that is no Fraction of at least 0 (a float above all: what is not known exactly is
            infinite), or numbers that do not fit the axes.

    **Guarantees**
        * `+` is associative and, but for the order of axes, commutative, while all joint cells are at most
          `PROFILE_CELLS` (beyond, an upper bound is taken); `Loss.nothing()` changes nothing;
        * (a + b).rho ≤ a.rho + b.rho where neither is pure: cells are added up before the dearest is taken;
        * pure + pure is pure, and its ε is the sum; beside anything else ε²/2 of each is added to ρ;
        * `profile.largest` is ρ, rounded up, wherever there is a profile.
    """

    axes: Axes
    costs: tuple[Fraction, ...]
    pure: tuple[Fraction, ...]
    by_cell: bool

    def __post_init__(self) -> None:
        if not all(isinstance(x, Fraction) and x >= 0 for x in (*self.costs, *self.pure)):
            raise _error("a cost must be a Fraction of at least 0: a cost not known exactly is infinite")
        if len({name for name, _ in self.axes}) != len(self.axes) or (self.axes and not self.by_cell):
            raise _error("a loss names each axis once, and has none where nothing is known of cells")
        if len(self.costs) != math.prod(n for _, n in self.axes):
            raise _error("a loss has one cost for each joint cell of its axes")

    @classmethod
    def nothing(cls) -> Self:
        """What is free."""
        return cls((), (Fraction(0),), (), by_cell=True)

    @classmethod
    def concentrated(cls, rho: Fraction) -> Self:
        """ρ-zCDP, and nothing is known of cells."""
        return cls((), (rho,), (), by_cell=False)

    @classmethod
    def of_cells(cls, axes: Axes, costs: Iterable[Fraction]) -> Self:
        """ρ-zCDP for neighbours that add or remove a record, by the cell it lies in."""
        return cls(tuple(axes), tuple(costs), (), by_cell=True)

    @classmethod
    def of_epsilon(cls, epsilon: Fraction, *, by_cell: bool) -> Self:
        """Pure ε-differential privacy, the same for all records. by_cell: neighbours add or remove one."""
        return cls((), (Fraction(0),), (epsilon,), by_cell=by_cell)

    def __add__(self, other: Loss) -> Loss:
        pure = tuple(sorted(self.pure + other.pure))
        if not (self.by_cell and other.by_cell):
            return Loss((), (self.dearest + other.dearest,), pure, by_cell=False)
        axes = _union(self.axes, other.axes)
        if set(axes) not in (set(self.axes), set(other.axes)) and _cells(axes) > PROFILE_CELLS:
            return Loss((), (self.dearest + other.dearest,), pure, by_cell=True)
        together = np.add(_spread(self.axes, self.costs, axes), _spread(other.axes, other.costs, axes), dtype=object)
        return Loss(axes, tuple(np.ravel(together).tolist()), pure, by_cell=True)

    @cached_property
    def dearest(self) -> Fraction:
        """ρ of what is not pure: that of the dearest cell."""
        return max(self.costs)

    @property
    def epsilon(self) -> Fraction | None:
        """ε, exact, where all is pure; None where something is not, or nothing is measured."""
        return sum(self.pure, Fraction(0)) if self.pure and not self.dearest else None

    @property
    def rho(self) -> Fraction:
        """ρ of all, exact; where everything is pure ε²/2 of the sum of ε."""
        return self.dearest + self._implied if self.epsilon is None else self.epsilon**2 / 2

    @property
    def _implied(self) -> Fraction:
        """ρ that follows from each ε."""
        return sum((e**2 / 2 for e in self.pure), Fraction(0))

    @cached_property
    def profile(self) -> Profile | None:
        """ρ by cell, rounded up, for the ledger; of more than `PROFILE_CELLS` cells the largest for all.

        None where nothing is known of cells, and where all is pure: the ledger keeps its ε instead.
        """
        if not self.by_cell or self.epsilon is not None:
            return None
        if len(self.costs) > PROFILE_CELLS:
            return Profile.of([], [self.rho])
        return Profile.of(self.axes, [c + self._implied for c in self.costs])

    def named(self, keys: dict[str, str]) -> Loss:
        """The same, its axes under other names: what stands for an attribute's whole definition, in a ledger."""
        return Loss(tuple((keys[name], n) for name, n in self.axes), self.costs, self.pure, by_cell=self.by_cell)

    def relative(self, axes: Axes, shares: Sequence[float]) -> Fraction:
        """Max over cells of ρ/r, for relative budgets r ≤ 1 of the joint cells of some axes, in C order; or ρ.

        What is pure costs its ρ in every cell.

        Raises:
            PlanError: something is measured of records whose budget is 0.
        """
        if not axes:
            return self.rho
        union = _union(self.axes, axes)
        shape = [n for _, n in union]
        pure = self.rho - self.dearest
        held = np.broadcast_to(_spread(self.axes, self.costs, union), shape)
        spent = [x + pure for x in held.ravel().tolist()]
        allowed = np.broadcast_to(_spread(axes, tuple(map(Fraction, shares)), union), shape).ravel().tolist()
        if any(cost > 0 and share == 0 for cost, share in zip(spent, allowed, strict=True)):
            raise PlanError("the strategy measures records whose relative budget is 0.")
        return max((Fraction(x / r) for x, r in zip(spent, allowed, strict=True) if r > 0), default=Fraction(0))

    # --- as ε at a δ, and as μ --------------------------------------------------------------------------

    def epsilon_at(self, delta: float) -> float:
        """ε at δ, guaranteed for the discrete noise used: by the optimal conversion of ρ, or with every ε added apart.

        Whichever is less: both are proven.
        """
        return self._least(privacy.zcdp_epsilon(self.rho, delta), privacy.zcdp_epsilon(self.dearest, delta))

    def nominal_epsilon_at(self, delta: float) -> float:
        """ε at δ by the exact curve of continuous Gaussian noise: smaller, to compare with other tools."""
        own = privacy.gaussian_epsilon(privacy.mu(2 * self.dearest), delta)
        return self._least(privacy.gaussian_epsilon(self.mu, delta), own)

    def _least(self, joined: float, own: float) -> float:
        if self.epsilon is not None:
            return rounded_up(self.epsilon)
        return min(joined, rounded_up(Fraction(own) + sum(self.pure, Fraction(0))))

    @property
    def mu(self) -> float:
        """μ of the continuous Gaussian mechanism imitated on the integers, with what pure answers imply."""
        if self.epsilon is not None:
            return privacy.pure_mu(self.epsilon)
        return math.hypot(privacy.mu(2 * self.dearest), *(privacy.pure_mu(e) for e in self.pure))


def _union(own: Axes, other: Axes) -> Axes:
    """The axes of both, in order of appearance."""
    axes = tuple(dict.fromkeys((*own, *other)))
    if len({name for name, _ in axes}) != len(axes):
        raise _error("two losses give one axis different sizes: they have other cells")
    return axes


def _cells(axes: Axes) -> int:
    return math.prod(n for _, n in axes)


def _spread(own: Axes, costs: Sequence[Fraction], axes: Axes) -> NDArray[Any]:
    """Numbers along their own axes, as an array along others that hold them: of size 1 where they do not."""
    order = [own.index(a) for a in axes if a in own]
    held = np.array(costs, dtype=object).reshape([n for _, n in own]).transpose(order)
    return np.asarray(held.reshape([n if (name, n) in own else 1 for name, n in axes]))


def rounded_up(x: Fraction) -> float:
    """The least float that is no less.

    Raises:
        PlanError: there is none.
    """
    try:
        f = float(x)
    except OverflowError:
        raise PlanError("the plan costs more than a number can say; nothing of it can be used.") from None
    return f if Fraction(f) >= x else math.nextafter(f, math.inf)


def _error(what: str) -> LedgerError:
    return LedgerError(f"{what}; nothing was charged")
