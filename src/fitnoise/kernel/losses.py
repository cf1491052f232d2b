"""Define losses: the exact privacy costs of releases for one protected unit. Part of the trust kernel.

A design computes a :class:`Loss` from its integers. The losses of a release's designs are added up and charged.

A `Loss` stores ρ-zCDP and pure ε separately, each as proven. ρ is that of Gaussian noise, by cell where neighbours add
or remove a record (:mod:`fitnoise.kernel.profiles`). Pure ε implies ρ: ε-differential privacy is ε²/2-zCDP (Bun and
Steinke 2016, Proposition 1.4). ρ adds up, also over the numbers of one pure answer, whose costs may each be less than
that of the answer. For Gaussian noise on a fine lattice, the curve of continuous noise holds as well
(docs/mathematics/exact_curve.md).
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
"""The largest number of structured cells whose costs the ledger stores (about 80 kB). Above it, the largest stands for
all.
"""

_MAX_CLAIMED_MU = 1e100
"""The μ′ of noise for which nothing is claimed."""

Axes = tuple[tuple[str, int], ...]
"""The attributes by whose joint cells a cost is known, each with its number of values."""

_Placed = tuple[Axes, tuple[Fraction, ...]]


@final
@dataclass(frozen=True)
class Loss:
    """The exact cost of a release, or of several on the same records, for one protected unit.

    Attributes:
        axes: The attributes by whose joint cells the cost is known, no name twice.
        costs: ρ of the measurements that are not pure, in C order, length Π sizes. Each is an upper bound for a unit
            with all records in that cell.
        implied_rho: ρ of the pure measurements by cell, in the same order: at most Σ ε²/2, and less where an answer has
            several numbers.
        pure_epsilons: ε of every answer that is purely differentially private, in increasing order.
        precision: The largest 1/σ² of the Gaussian noise, all of which is discrete and on integers. It is 0 without
            Gaussian noise, and 1 where nothing is known of the noise: then only ρ is claimed.
        by_cell: True if a unit with records in several cells costs at most the mean of these cells. This holds where
            neighbours add or remove a record. Otherwise `costs` and `implied_rho` are one number each, without cells.

    Callers use the properties and never the kind of a loss. So another representation of the same loss (a privacy-loss
    curve, μ²) can be added to ρ without a change to callers.

    Raises:
        LedgerError: A cost is not a Fraction of at least 0. An axis is named twice, or without `by_cell`. Numbers do
            not fit the axes. Or the implied ρ exceeds the value that pure ε implies. A float is refused, because a cost
            that is not known exactly counts as infinite.

    **Guarantees**
        * `+` is associative and, except for the order of axes, commutative. This holds for losses with one value of
          `by_cell`, while all joint cells are at most `PROFILE_CELLS`. Otherwise the sum is an upper bound.
          `Loss.zero()` changes nothing.
        * (a + b).rho ≤ a.rho + b.rho under the same conditions: cells are added up before the maximum is taken.
        * pure + pure is pure, and its ε is the sum. Its ρ is at most the sum of both ρ, and at most half the square of
          its ε.
        * `profile.largest` is ρ, rounded up, wherever there is a profile.
    """

    axes: Axes
    costs: tuple[Fraction, ...]
    implied_rho: tuple[Fraction, ...]
    pure_epsilons: tuple[Fraction, ...]
    by_cell: bool
    precision: Fraction

    def __post_init__(self) -> None:
        numbers = (*self.costs, *self.implied_rho, *self.pure_epsilons, self.precision)
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
        if not len(self.costs) == len(self.implied_rho) == _cells(self.axes):
            raise LedgerError(
                "loss-costs-misfit-axes",
                "A loss does not have one cost for each joint cell of its axes.",
                "",
                "Give one cost for each joint cell.",
                "Nothing was charged.",
            )
        if max(self.implied_rho) > sum((e**2 / 2 for e in self.pure_epsilons), Fraction(0)):
            raise LedgerError(
                "loss-rho-above-epsilon",
                "The ρ implied by the pure ε of a loss is too large.",
                "It is at most half of the sum of the squares of ε.",
                "Give a smaller implied ρ.",
                "Nothing was charged.",
            )

    @classmethod
    def zero(cls) -> Self:
        """Return the loss of a free release."""
        return cls((), (Fraction(0),), (Fraction(0),), (), by_cell=True, precision=Fraction(0))

    @classmethod
    def concentrated(cls, rho: Fraction, precision: Fraction = Fraction(1)) -> Self:
        """Return the loss of ρ-zCDP without knowledge of cells.

        Args:
            rho: The exact ρ.
            precision: For discrete Gaussian noise, the largest 1/σ². It is 1 if the noise is unknown: then the loss
                claims only ρ.
        """
        return cls((), (rho,), (Fraction(0),), (), by_cell=False, precision=precision)

    @classmethod
    def of_cells(cls, axes: Axes, costs: Iterable[Fraction], precision: Fraction = Fraction(1)) -> Self:
        """Return the loss of ρ-zCDP by the cell of a record, for neighbours that add or remove a record.

        Args:
            axes: The attributes of the cells.
            costs: The exact ρ of each joint cell, in C order: an upper bound for a unit with all records in that cell.
            precision: For discrete Gaussian noise, the largest 1/σ². It is 1 if the noise is unknown: then the loss
                claims only ρ.
        """
        rho = tuple(costs)
        return cls(tuple(axes), rho, (Fraction(0),) * len(rho), (), by_cell=True, precision=precision)

    @classmethod
    def of_epsilon(
        cls, epsilon: Fraction, *, by_cell: bool, axes: Axes = (), implied: Iterable[Fraction] | None = None
    ) -> Self:
        """Return the loss of pure ε-differential privacy.

        Args:
            epsilon: The exact ε.
            by_cell: True if neighbours add or remove a record.
            axes: The attributes of the cells of `implied`.
            implied: Σ ε_k²/2 over the numbers of the answer, by cell of the axes. A larger one counts as ε²/2, and
                without it ε²/2 stands for all.
        """
        # ε-DP implies ε²/2-zCDP, so the implied ρ of each cell never needs to exceed this.
        limit = epsilon**2 / 2
        rho = (limit,) if implied is None else tuple(min(x, limit) for x in implied)
        return cls(axes, (Fraction(0),) * len(rho), rho, (epsilon,), by_cell=by_cell, precision=Fraction(0))

    def __add__(self, other: Loss) -> Loss:
        by_cell = self.by_cell and other.by_cell
        axes = _union(self.axes, other.axes)  # losses not known by cell have no axes
        # A loss that has all the axes already is added to at any size: the sum has no more cells.
        if not (by_cell and (set(axes) in (set(self.axes), set(other.axes)) or _cells(axes) <= PROFILE_CELLS)):
            axes = ()
        costs = _added((self.axes, self.costs), (other.axes, other.costs), axes)
        implied = _added((self.axes, self.implied_rho), (other.axes, other.implied_rho), axes)
        pure, precision = tuple(sorted(self.pure_epsilons + other.pure_epsilons)), max(self.precision, other.precision)
        return Loss(axes, costs, implied, pure, by_cell=by_cell, precision=precision)

    @cached_property
    def max_cell_rho(self) -> Fraction:
        """The ρ of the measurements that are not pure: that of the costliest cell."""
        return max(self.costs)

    @property
    def epsilon(self) -> Fraction | None:
        """The exact ε if all measurements are pure; None if one is not, or if nothing is measured."""
        # A measurement with ρ = 0 reveals nothing, and leaves the others pure.
        return self.added_epsilon if self.pure_epsilons and not self.max_cell_rho else None

    @cached_property
    def rho(self) -> Fraction:
        """The exact ρ of all measurements: that of the costliest cell."""
        return max(self._rho_by_cell)

    @property
    def cost_squared(self) -> Fraction:
        """The exact number that planners minimise: Δ² = 2ρ, or ε² if all measurements are pure."""
        return 2 * self.rho if self.epsilon is None else self.epsilon**2

    @property
    def _rho_by_cell(self) -> Iterator[Fraction]:
        """The ρ of all measurements, for each cell; one number for all if costs are not known by cell."""
        return (c + i for c, i in zip(self.costs, self.implied_rho, strict=True))

    @property
    def added_epsilon(self) -> Fraction:
        """The sum of ε of all pure measurements, exact."""
        return sum(self.pure_epsilons, Fraction(0))

    @cached_property
    def profile(self) -> Profile | None:
        """The ρ by cell, rounded up, for the ledger; above `PROFILE_CELLS` cells, the largest for all.

        The property returns None if costs are not known by cell.
        """
        if not self.by_cell:
            return None
        if len(self.costs) > PROFILE_CELLS:
            return Profile.from_rho([], [self.rho])
        # The two parts of a cell are added before they are rounded, so `largest` is ρ itself, rounded up.
        return Profile.from_rho(self.axes, self._rho_by_cell)

    def group_loss(self, times: int) -> Loss:
        """Return a bound on the cost of k = `times` changes of the unit: k²ρ and kε.

        For the number of changes see :meth:`fitnoise.kernel.units.Adjacency.changes`.
        """
        # The changes can be in different cells, so the costliest cell stands for all.
        pure = tuple(times * e for e in self.pure_epsilons)
        costs, implied = (times**2 * self.max_cell_rho,), (times**2 * max(self.implied_rho),)
        return Loss((), costs, implied, pure, by_cell=False, precision=self.precision)

    def with_axis_names(self, keys: dict[str, str]) -> Loss:
        """Return the loss with its axes under other names: in a ledger, keys of complete attribute definitions."""
        return replace(self, axes=tuple((keys[name], n) for name, n in self.axes))

    def relative_to_budgets(self, axes: Axes, shares: Sequence[float]) -> Loss:
        """Return the loss whose ρ is the largest ρ/r over cells, for relative budgets r ≤ 1 of joint cells.

        If `axes` is empty, the loss itself is returned.

        Args:
            axes: The attributes with relative budgets.
            shares: The relative budget of each joint cell of the axes, from 0 to 1, in C order.

        Raises:
            PlanError: The loss of a cell with budget 0 is above 0.
            LedgerError: The loss gives one of the axes another size.
        """
        if not axes:
            return self
        union = _union(self.axes, axes)
        shape = [n for _, n in union]
        spent = np.broadcast_to(_broadcast(self.axes, tuple(self._rho_by_cell), union), shape).ravel().tolist()
        allowed = np.broadcast_to(_broadcast(axes, tuple(map(Fraction, shares)), union), shape).ravel().tolist()
        # ρ/0 is infinite for a record without budget, so that no relative cost exists.
        if any(cost > 0 and budget == 0 for cost, budget in zip(spent, allowed, strict=True)):
            raise PlanError(
                "relative-budget-zero",
                "The strategy measures records whose relative budget is 0.",
                "",
                "Give these records a relative budget above 0, or plan again.",
                "Nothing was measured.",
            )
        worst = max((Fraction(x / r) for x, r in zip(spent, allowed, strict=True) if r > 0), default=Fraction(0))
        # The ρ of pure noise is not that of Gaussian noise: with precision 1, only ρ is claimed for the sum.
        return Loss.concentrated(worst, Fraction(1) if self.pure_epsilons else self.precision)

    # --- as δ at an ε, and as μ² ---------------------------------------------------------------------

    def delta_at(self, epsilon: float) -> float:
        """Return δ at ε, a guarantee for the noise that is used; 0 if all measurements are pure and cost at most ε.

        Args:
            epsilon: ε ≥ 0.
        """
        rest = Fraction(epsilon) - self.added_epsilon
        # Two bounds hold, so the smaller one does: pure measurements count by ρ and μ, or their ε is taken off first.
        joined = min(privacy.zcdp_delta(self.rho, epsilon), privacy.lattice_delta(self.mu_above, epsilon))
        if rest < 0:
            return joined
        # Rounded down: δ falls with ε, so a larger ε would understate δ.
        below = math.nextafter(float(rest), 0.0) if Fraction(float(rest)) > rest else float(rest)
        return min(
            joined, privacy.zcdp_delta(self.max_cell_rho, below), privacy.lattice_delta(self.gaussian_mu_above, below)
        )

    @cached_property
    def mu_squared(self) -> Fraction | None:
        """μ² of all measurements, rounded up: together they are μ-Gaussian-private. None if no μ′² exists.

        Gaussian noise has μ′² unless a lattice is unknown or too coarse (docs/mathematics/exact_curve.md). With pure
        measurements the result is the smaller of two sums. One adds Σ μ(ε)² to μ′². The other adds, in each cell, π
        times the ρ of the pure numbers, as each of these has μ² ≤ π/2 ε². μ² adds up, also for measurements chosen
        after earlier results were seen.
        """
        gaussian = self.gaussian_mu_squared
        if gaussian is None:
            return None
        if not self.pure_epsilons:
            return gaussian
        stretch, both = self._stretch, zip(self.costs, self.implied_rho, strict=True)
        by_number = max(stretch * c + 2 * privacy.HALF_PI * i for c, i in both)
        return min(by_number, gaussian + sum((privacy.pure_mu_squared(e) for e in self.pure_epsilons), Fraction(0)))

    @property
    def gaussian_mu_squared(self) -> Fraction | None:
        """μ′² of the Gaussian noise alone; None if one of its lattices is unknown or too coarse, 1/σ² > 1/256."""
        return privacy.smoothed_cost(2 * self.max_cell_rho, self.precision)

    @property
    def mu_rate(self) -> Fraction:
        """An upper bound on the ratio of μ² to ρ in every cell, where `mu_squared` is known: π if one is pure."""
        return 2 * privacy.HALF_PI if self.pure_epsilons else self._stretch

    @property
    def _stretch(self) -> Fraction:
        """μ′² of Gaussian noise for each unit of ρ."""
        return privacy.smoothed_cost(Fraction(2), self.precision) or Fraction(2)

    @property
    def gaussian_mu_above(self) -> float:
        """μ′ of the measurements that are not pure, rounded up; above every bound if no μ′² exists."""
        return _root_above(self.gaussian_mu_squared)

    @cached_property
    def mu_above(self) -> float:
        """μ of all measurements, rounded up; above every bound if no μ′² exists."""
        return _root_above(self.mu_squared)


def _union(own_axes: Axes, further_axes: Axes) -> Axes:
    """Return the axes of both, in order of appearance; raise LedgerError if they give one name two sizes."""
    axes = tuple(dict.fromkeys((*own_axes, *further_axes)))
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
    """Return the sum of two functions of cells, in C order of `axes`, which contain the axes of both.

    If `axes` is empty, the sum of their two maxima is returned.
    """
    if not axes:
        return (max(one[1]) + max(other[1]),)
    return tuple(np.ravel(np.add(_broadcast(*one, axes), _broadcast(*other, axes), dtype=object)).tolist())


def _root_above(square: Fraction | None) -> float:
    """Return an upper bound on the square root; above every bound for None."""
    return _MAX_CLAIMED_MU if square is None else min(_MAX_CLAIMED_MU, privacy.mu_above(square))


def _broadcast(own_axes: Axes, costs: Sequence[Fraction], axes: Axes) -> NDArray[Any]:
    """Return numbers along their own axes as an array along axes that contain them, with size 1 along the others."""
    order = [own_axes.index(a) for a in axes if a in own_axes]
    held = np.array(costs, dtype=object).reshape([n for _, n in own_axes]).transpose(order)
    return np.asarray(held.reshape([n if (name, n) in own_axes else 1 for name, n in axes]))


def rounded_up(x: Fraction) -> float:
    """Return the least float that is at least x.

    Raises:
        PlanError: No float is that large.
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
