"""What releases cost one protected unit, exact, whatever they measured. Part of the trust kernel.

A :class:`Loss` is computed by a design from its integers, added up over the designs of a release, and charged. Two
kinds of promises are kept apart in it, and each is as strong as it was proven: ρ-zCDP of Gaussian noise, cell by cell
where neighbours add or remove a record (:mod:`fitnoise.kernel.profiles`), and pure ε. Pure promises imply concentrated
ones: ε-differential privacy is ε²/2-zCDP (Bun and Steinke 2016, Proposition 1.4), and ρ adds, also over the numbers of
one pure answer, of which each is less than all of them. Of Gaussian noise on a fine lattice the curve of continuous
noise is known as well (docs/mathematics/exact_curve.md).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
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

_BOUNDLESS = 1e100
"""μ′ of which nothing is claimed."""

Axes = tuple[tuple[str, int], ...]
"""Attributes by whose joint cells something is told, each with its number of values."""

_Placed = tuple[Axes, tuple[Fraction, ...]]


@final
@dataclass(frozen=True)
class Loss:
    """What a release, or several on the same records, cost one protected unit, exact.

    axes: the attributes by whose joint cells the cost is known, no name twice.
    costs: ρ of what is not pure, of a unit of which all records lie in that cell, or no less; C order, length Π sizes.
    implied: ρ of what is pure, likewise by cell: at most Σ ε²/2, and less where an answer is of several numbers.
    pure: ε of every answer that is purely differentially private, in increasing order.
    precision: the largest 1/σ² of the Gaussian noise, all of which is discrete and on integers; 0 where there is none,
        and 1 where nothing is known of it: then nothing but ρ is claimed.
    by_cell: whether a unit with records in several cells pays no more than the mean of them: so where neighbours add
        or remove a record. Otherwise `costs` and `implied` are one number each, and say nothing of cells.

    Callers ask its properties and never what kind it is: another representation of the same loss (a privacy-loss curve,
    μ²) can stand beside ρ without any of them changing.

    Raises:
        LedgerError: a cost that is no Fraction of at least 0 (a float above all: what is not known exactly is
            infinite), numbers that do not fit the axes, or more ρ than what is pure implies.

    **Guarantees**
        * `+` is associative and, but for the order of axes, commutative, while all joint cells are at most
          `PROFILE_CELLS` (beyond, an upper bound is taken); `Loss.nothing()` changes nothing;
        * (a + b).rho ≤ a.rho + b.rho while all joint cells are: cells are added up before the dearest is taken;
        * pure + pure is pure, and its ε is the sum; its ρ is at most that of each together, and at most half the
          square of its ε;
        * `profile.largest` is ρ, rounded up, wherever there is a profile.
    """

    axes: Axes
    costs: tuple[Fraction, ...]
    implied: tuple[Fraction, ...]
    pure: tuple[Fraction, ...]
    by_cell: bool
    precision: Fraction

    def __post_init__(self) -> None:
        numbers = (*self.costs, *self.implied, *self.pure, self.precision)
        if not all(isinstance(x, Fraction) and x >= 0 for x in numbers):
            raise LedgerError(
                "loss-costs-invalid",
                "A cost of a loss is not a Fraction of at least 0.",
                "Only exact costs are charged.",
                "Give each cost as a Fraction.",
                "Nothing was charged.",
            )
        if len({name for name, _ in self.axes}) != len(self.axes) or (self.axes and not self.by_cell):
            raise LedgerError(
                "loss-axes-invalid",
                "A loss names one axis twice, or names axes without costs by cell.",
                "",
                "Name each axis once, and none where the costs are not known by cell.",
                "Nothing was charged.",
            )
        if not len(self.costs) == len(self.implied) == _cells(self.axes):
            raise LedgerError(
                "loss-costs-misfit-axes",
                "A loss does not have one cost for each joint cell of its axes.",
                "",
                "Give one cost for each joint cell.",
                "Nothing was charged.",
            )
        if max(self.implied) > sum((e**2 / 2 for e in self.pure), Fraction(0)):
            raise LedgerError(
                "loss-rho-above-epsilon",
                "The ρ implied by the pure ε of a loss is too large.",
                "It is at most half of the sum of the squares of ε.",
                "Give a smaller implied ρ.",
                "Nothing was charged.",
            )

    @classmethod
    def nothing(cls) -> Self:
        """What is free."""
        return cls((), (Fraction(0),), (Fraction(0),), (), by_cell=True, precision=Fraction(0))

    @classmethod
    def concentrated(cls, rho: Fraction, precision: Fraction = Fraction(1)) -> Self:
        """ρ-zCDP, and nothing is known of cells. precision: of noise that is discrete Gaussian, the largest 1/σ²."""
        return cls((), (rho,), (Fraction(0),), (), by_cell=False, precision=precision)

    @classmethod
    def of_cells(cls, axes: Axes, costs: Iterable[Fraction], precision: Fraction = Fraction(1)) -> Self:
        """ρ-zCDP for neighbours that add or remove a record, by the cell it lies in. precision: likewise."""
        rho = tuple(costs)
        return cls(tuple(axes), rho, (Fraction(0),) * len(rho), (), by_cell=True, precision=precision)

    @classmethod
    def of_epsilon(
        cls, epsilon: Fraction, *, by_cell: bool, axes: Axes = (), implied: Iterable[Fraction] | None = None
    ) -> Self:
        """Pure ε-differential privacy. by_cell: neighbours add or remove a record.

        implied: Σ ε_k²/2 over its numbers, by cell of the axes, where that is known; ε²/2 bounds all of them.
        """
        whole = epsilon**2 / 2
        rho = (whole,) if implied is None else tuple(min(x, whole) for x in implied)
        return cls(axes, (Fraction(0),) * len(rho), rho, (epsilon,), by_cell=by_cell, precision=Fraction(0))

    def __add__(self, other: Loss) -> Loss:
        by_cell = self.by_cell and other.by_cell
        axes = _union(self.axes, other.axes)  # of what is not known by cell there are none
        if not (by_cell and (set(axes) in (set(self.axes), set(other.axes)) or _cells(axes) <= PROFILE_CELLS)):
            axes = ()
        costs = _added((self.axes, self.costs), (other.axes, other.costs), axes)
        implied = _added((self.axes, self.implied), (other.axes, other.implied), axes)
        pure, precision = tuple(sorted(self.pure + other.pure)), max(self.precision, other.precision)
        return Loss(axes, costs, implied, pure, by_cell=by_cell, precision=precision)

    @cached_property
    def dearest(self) -> Fraction:
        """ρ of what is not pure: that of the dearest cell."""
        return max(self.costs)

    @property
    def epsilon(self) -> Fraction | None:
        """ε, exact, where all is pure; None where something is not, or nothing is measured."""
        return self._added_epsilon if self.pure and not self.dearest else None

    @cached_property
    def rho(self) -> Fraction:
        """ρ of all, exact: that of the dearest cell."""
        return max(self._together)

    @property
    def cost_squared(self) -> Fraction:
        """What planners minimise, exact: Δ² = 2ρ, and ε² where all is pure."""
        return 2 * self.rho if self.epsilon is None else self.epsilon**2

    @property
    def _together(self) -> Iterator[Fraction]:
        """ρ of all, by cell."""
        return (c + i for c, i in zip(self.costs, self.implied, strict=True))

    @property
    def _added_epsilon(self) -> Fraction:
        return sum(self.pure, Fraction(0))

    @cached_property
    def profile(self) -> Profile | None:
        """ρ by cell, rounded up, for the ledger; of more than `PROFILE_CELLS` cells the largest for all.

        None where nothing is known of cells.
        """
        if not self.by_cell:
            return None
        if len(self.costs) > PROFILE_CELLS:
            return Profile.of([], [self.rho])
        return Profile.of(self.axes, self._together)

    def repeated(self, times: int) -> Loss:
        """What so many changes of the unit cost, one after the other: k²ρ, kε (:meth:`Adjacency.changes`), no more."""
        pure = tuple(times * e for e in self.pure)
        costs, implied = (times**2 * self.dearest,), (times**2 * max(self.implied),)
        return Loss((), costs, implied, pure, by_cell=False, precision=self.precision)

    def named(self, keys: dict[str, str]) -> Loss:
        """The same, its axes under other names: what stands for an attribute's whole definition, in a ledger."""
        return replace(self, axes=tuple((keys[name], n) for name, n in self.axes))

    def relative(self, axes: Axes, shares: Sequence[float]) -> Loss:
        """Max over cells of ρ/r, for relative budgets r ≤ 1 of the joint cells of some axes, in C order; or the same.

        Raises:
            PlanError: something is measured of records whose budget is 0.
        """
        if not axes:
            return self
        union = _union(self.axes, axes)
        shape = [n for _, n in union]
        spent = np.broadcast_to(_spread(self.axes, tuple(self._together), union), shape).ravel().tolist()
        allowed = np.broadcast_to(_spread(axes, tuple(map(Fraction, shares)), union), shape).ravel().tolist()
        if any(cost > 0 and share == 0 for cost, share in zip(spent, allowed, strict=True)):
            raise PlanError(
                "relative-budget-zero",
                "The strategy measures records whose relative budget is 0.",
                "",
                "Give these records a relative budget above 0, or plan again.",
                "Nothing was measured.",
            )
        worst = max((Fraction(x / r) for x, r in zip(spent, allowed, strict=True) if r > 0), default=Fraction(0))
        return Loss.concentrated(worst, Fraction(1) if self.pure else self.precision)

    # --- as ε at a δ, and as μ --------------------------------------------------------------------------

    def epsilon_at(self, delta: float) -> float:
        """ε at δ: guaranteed, for the noise that is used.

        Where all is pure the sum of ε, whatever δ. Otherwise the least of what is proven: by the curve of continuous
        Gaussian noise (where the lattices are fine) or by the conversion of ρ-zCDP, of everything together or of what
        is not pure with every ε added.
        """
        if self.epsilon is not None:
            return rounded_up(self.epsilon)
        own = min(privacy.zcdp_epsilon(self.dearest, delta), privacy.lattice_epsilon(self._smoothed, delta))
        joined = min(privacy.zcdp_epsilon(self.rho, delta), privacy.lattice_epsilon(self._smoothed_all, delta))
        return min(joined, rounded_up(Fraction(own) + self._added_epsilon))

    def delta_at(self, epsilon: float) -> float:
        """δ at ε: guaranteed likewise. 0 where all is pure and no dearer."""
        rest = Fraction(epsilon) - self._added_epsilon
        joined = min(privacy.zcdp_delta(self.rho, epsilon), privacy.lattice_delta(self._smoothed_all, epsilon))
        if rest < 0:
            return joined
        below = math.nextafter(float(rest), 0.0) if Fraction(float(rest)) > rest else float(rest)
        return min(joined, privacy.zcdp_delta(self.dearest, below), privacy.lattice_delta(self._smoothed, below))

    @property
    def best_guess(self) -> float:
        """How often a guess between two neighbouring databases, held for equally likely before, is right at most."""
        return best_guess(self.rho, self.mu_squared)

    @cached_property
    def mu_squared(self) -> Fraction | None:
        """μ² of all, rounded up: the whole is μ-Gaussian-private. None where nothing is known of a lattice.

        Gaussian noise has μ′² (docs/mathematics/exact_curve.md). What is pure has Σ μ(ε)², and at most π times its ρ,
        by the numbers of which each has μ² ≤ π/2 ε²: the smaller of both. μ² add, also of what is
        chosen after seeing what came before.
        """
        own = self.gaussian_mu_squared
        if own is None:
            return None
        if not self.pure:
            return own
        stretch, both = self._stretch, zip(self.costs, self.implied, strict=True)
        by_number = max(stretch * c + 2 * privacy.HALF_PI * i for c, i in both)
        return min(by_number, own + sum((privacy.pure_mu_squared(e) for e in self.pure), Fraction(0)))

    @property
    def gaussian_mu_squared(self) -> Fraction | None:
        """μ′² of the Gaussian noise alone; None where nothing is known of a lattice."""
        return privacy.smoothed_cost(2 * self.dearest, self.precision)

    @property
    def mu_rate(self) -> Fraction:
        """μ² is at most this times ρ in every cell, where `mu_squared` is known: π where anything is pure."""
        return 2 * privacy.HALF_PI if self.pure else self._stretch

    @property
    def _stretch(self) -> Fraction:
        """μ′² of Gaussian noise for each ρ."""
        return privacy.smoothed_cost(Fraction(2), self.precision) or Fraction(2)

    @property
    def _smoothed(self) -> float:
        """μ′ of what is not pure, rounded up; beyond all bounds where nothing is known of its lattices."""
        return _root_above(self.gaussian_mu_squared)

    @cached_property
    def _smoothed_all(self) -> float:
        """The same of all."""
        return _root_above(self.mu_squared)

    @property
    def mu(self) -> float:
        """μ of the continuous Gaussian mechanism imitated on the integers, with what pure answers imply."""
        together = zip(self.costs, self.implied, strict=True)
        by_number = privacy.mu(2 * max(c + privacy.HALF_PI * i for c, i in together))
        return min(by_number, math.hypot(privacy.mu(2 * self.dearest), *map(privacy.pure_mu, self.pure)))


def _union(own: Axes, other: Axes) -> Axes:
    """The axes of both, in order of appearance."""
    axes = tuple(dict.fromkeys((*own, *other)))
    if len({name for name, _ in axes}) != len(axes):
        raise LedgerError(
            "loss-sizes-differ",
            "Two losses give one axis different sizes.",
            "Losses with different sizes have different cells.",
            "Compose only releases with the same cells of this axis.",
            "Nothing was charged.",
        )
    return axes


def _cells(axes: Axes) -> int:
    return math.prod(n for _, n in axes)


def _added(one: _Placed, other: _Placed, axes: Axes) -> tuple[Fraction, ...]:
    """The sum of two functions of cells over axes that hold those of both; of their largest values over none."""
    if not axes:
        return (max(one[1]) + max(other[1]),)
    return tuple(np.ravel(np.add(_spread(*one, axes), _spread(*other, axes), dtype=object)).tolist())


def best_guess(rho: Fraction | None, mu_squared: Fraction | None) -> float:
    """Return the probability with which the best guess between two neighbouring databases is right at most.

    The attacker knows both databases, held them for equally likely before, and has seen everything released.

    Args:
        rho: ρ of everything released; None where it is not known.
        mu_squared: μ² of the same, as of `Loss.mu_squared`; None where it is not known.

    Returns:
        ½ + ½ δ(0), a probability from ½ to 1, rounded up.

    **Guarantees**
        * it is the smaller of the results by ρ and by μ², and 1 where both are unknown;
        * it is never below Φ(μ/2) of Gaussian noise, nor below e^ε/(1 + e^ε) of one pure answer.

    Source: Dong, Roth and Su, "Gaussian Differential Privacy" (2019); docs/what_epsilon_means.md.
    """
    by_rho = 1.0 if rho is None or rho > privacy.LARGEST else privacy.zcdp_delta(rho, 0.0)
    delta = min(by_rho, privacy.lattice_delta(_root_above(mu_squared), 0.0))
    return min(1.0, math.nextafter((1 + delta) / 2, 2.0))


def _root_above(square: Fraction | None) -> float:
    """No less than the square root; beyond all bounds for None."""
    return _BOUNDLESS if square is None else min(_BOUNDLESS, privacy.mu_above(square))


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
        raise PlanError(
            "cost-too-large",
            "The privacy cost of the plan is larger than any floating-point number.",
            "",
            "Ask for less accuracy, and plan again.",
            "The plan was not used.",
        ) from None
    return f if Fraction(f) >= x else math.nextafter(f, math.inf)
