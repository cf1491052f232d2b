"""Curves δ(ε) of everything that one account released, as one release.

A cap adds up ρ, μ² or ε, and holds for any later choice of plans. For plans that were fixed in advance, a smaller bound
is known. The privacy losses of independent draws add, so the law of their sum follows from their laws. This module
computes that law from the charges in the ledger:

    δ(ε) = Σ_l P(l) δ_G(μ′, ε − l),

Here μ′² is the sum of μ² of all Gaussian noise, with its curve δ_G (docs/mathematics/exact_curve.md). The letter l is
the sum of all other losses. These are the losses of numbers with discrete Laplace noise, and of answers of which only ε
is known.

The module keeps laws on a grid of losses. No curve on the grid is below the exact curve.
The curve δ is a convex function of e^ε, and straight lines join its points on the grid. Doroshenko, Ghazi, Kamath,
Kumar and Manurangsi (*Connect the dots*, 2022) state this method. The module adds and multiplies positive numbers, so
rounding changes each by a small part of itself. `_FACTOR` exceeds the rounding of all of them; where the module
subtracts curves, `_SLACK` exceeds it.

Trust: a mistake here can state a smaller δ or ε than the releases guarantee.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property, partial
from typing import Any, Final, Protocol, final

import numpy as np
from scipy import special

from fitnoise.errors import LedgerError
from fitnoise.kernel import privacy
from fitnoise.kernel.arrays import Floats
from fitnoise.kernel.units import Account
from fitnoise.messages import Message

FIXED_IN_ADVANCE: Final = Message("report.together.fixed_in_advance")
"""The condition under which a curve holds: it is printed wherever a number of the curve is."""

_POINTS = 2**14
"""The largest number of grid points on either side of 0."""

_FINEST_STEP = 2.0**-10
"""The distance of two grid points, where the grid then covers all losses."""

_MAX_TOTAL_EPSILON = 500
"""The largest sum of all ε. Above it, numbers leave floating point, and the curve of the grid is 1."""

_TAIL = 1e-25
"""The largest probability of the tail of a sum that counts as certain loss."""

_FACTOR = 1 + 1e-8
"""A factor above the rounding of 10⁵ sums of 10⁵ positive numbers."""

_SLACK = 1e-11
"""A bound on the rounding of the maximum of several curves, for a table whose costliest unit depends on ε."""

_SHIFT = 1e-12
"""A shift of losses, equal to that in :func:`fitnoise.kernel.privacy.lattice_delta`."""

Law = tuple[tuple[Fraction, int], ...]
"""Pairs of an ε of numbers with Laplace noise, and the number of these numbers."""


class UnitPrice(Protocol):
    """The cost of a charge for one unit, in the parts that this module adds up."""

    @property
    def rho(self) -> Fraction:
        """The ρ of zero-concentrated differential privacy."""

    @property
    def epsilon(self) -> Fraction | None:
        """The ε of pure differential privacy; None if the charge is not pure."""

    @property
    def known_mu_squared(self) -> Fraction | None:
        """The μ² of Gaussian differential privacy; None if it is not known."""


class LedgerLine(Protocol):
    """An entry of a ledger without its cost: its kind, its account and its details."""

    @property
    def kind(self) -> str:
        """The kind of the entry: "charge" for spent budget."""

    @property
    def account(self) -> Account:
        """The account that the entry belongs to."""

    @property
    def detail(self) -> Mapping[str, Any]:
        """The statements of the entry without its cost; a charge has the hash of its plan under "plan"."""


class CostedEntry(LedgerLine, Protocol):
    """An entry of a ledger with the parts that this module adds up; see :class:`fitnoise.kernel.ledger.LedgerEntry`."""

    @property
    def sequence(self) -> int:
        """The number of the entry."""

    def price(self, account: Account) -> UnitPrice | None:
        """Return the cost of the entry for the unit of an account of its account's name; None if it states none."""


class CostedGroup(Protocol):
    """Charges on the same records: :class:`fitnoise.kernel.ledger.ChargeGroup` is one."""

    @property
    def entries(self) -> Sequence[CostedEntry]:
        """All entries of the group."""

    def rho(self, account: Account) -> Fraction | None:
        """Return ρ of all entries jointly, for the unit of an account."""

    def mu_squared(self, account: Account) -> Fraction | None:
        """Return μ² of all entries jointly, for the unit of an account."""


@final
@dataclass(frozen=True)
class ReleasedCharge:
    """The releases of one charge, or of several charges on the same records.

    mu_squared: μ′² of the Gaussian noise.
    tables: For each design with Laplace noise, the laws of the units that can be costliest. No such unit has a smaller
        cost than another one in all numbers.
    answers: ε of the answers of which only ε is known.
    total: μ² and ρ of the charge; None if they are not known.
    """

    mu_squared: Fraction = Fraction(0)
    tables: tuple[tuple[Law, ...], ...] = ()
    answers: tuple[Fraction, ...] = ()
    total: tuple[Fraction, Fraction] | None = None

    @classmethod
    def from_entry(cls, entry: CostedEntry, account: Account) -> ReleasedCharge:
        """Return the releases of a charge, from the ledger, for one account of the charge's name.

        Raises:
            LedgerError: Neither μ² nor ε of the charge is known, as for Gaussian noise on a coarse lattice.
        """
        price = entry.price(account)
        mu_squared = None if price is None else price.known_mu_squared
        if price is None or mu_squared is None:
            raise LedgerError(
                "entry-without-curve",
                f"Entry {entry.sequence} states only ρ, or nothing for {account.sentence!r}.",
                "A curve needs μ² or ε of each entry; only the sum of ρ is known here.",
                "Use the sum of ρ, without a curve.",
                "Nothing was changed.",
            )
        is_same_account, total = entry.account == account, (mu_squared, price.rho)
        # None in `numbers`: a design with Laplace noise states no laws for this unit, or has too many numbers for them.
        numbers, margins = entry.detail.get("numbers", []), entry.detail.get("margins", [])
        # The laws hold for the unit of the plan. For the unit of another account, only the price is converted.
        if is_same_account and "gaussian" in entry.detail and None not in numbers and (numbers or not margins):
            laws = tuple(tuple(tuple((Fraction(e), n) for e, n in law) for law in table) for table in numbers)
            answers = tuple(Fraction(x["epsilon"]) for x in entry.detail.get("questions", []))
            return cls(Fraction(entry.detail["gaussian"]), laws, answers, total)
        epsilon = price.epsilon
        if epsilon is not None and privacy.pure_mu_squared(epsilon) <= mu_squared * (1 + Fraction(1, 10**9)):
            # μ² follows from ε here, and the curve of ε is below that of the Gaussian noise that ε implies.
            return cls(answers=(epsilon,), total=total)
        return cls(mu_squared, total=total)


@final
@dataclass(frozen=True)
class Curve:
    """The smallest proven δ at every ε, for several releases as one.

    **Guarantees**
        * `delta` is at least the least δ at which all releases jointly are (ε, δ)-differentially private, if no plan
          depended on answers of earlier releases;
        * `epsilon` is an ε at which `delta` is at most the given δ.
    """

    released: tuple[ReleasedCharge, ...]

    def delta(self, epsilon: float) -> float:
        """Return δ at ε ≥ 0; at most 1.

        Raises:
            ValueError: ε is negative or not finite.
        """
        if not 0 <= epsilon < math.inf:
            raise ValueError(f"epsilon is {epsilon!r}; it needs a finite number of at least 0")
        # Each curve is proven, so the least one holds at every ε.
        return min(1.0, self._added_up(epsilon), *(x(epsilon) for x in self._sums))

    @cached_property
    def _sums(self) -> tuple[Callable[[float], float], ...]:
        """The curves from the sums of μ² and of ρ, if known; smaller than the grid's for small numbers."""
        totals = [x.total for x in self.released if x.total is not None]
        if not totals or len(totals) < len(self.released):
            return ()
        mu_squared, rho = (sum(x, Fraction(0)) for x in zip(*totals, strict=True))
        return partial(privacy.lattice_delta, privacy.mu_above(mu_squared)), partial(privacy.zcdp_delta, rho)

    def _added_up(self, epsilon: float) -> float:
        losses, chances, unbounded = self._law
        mu = self._mu
        if mu > 0:
            # A smaller ε has a larger δ, so the shift covers the rounding of ε − l.
            parts = _gaussian_delta(mu, epsilon - losses - _SHIFT)
        # Without Gaussian noise no loss exceeds the sum of all ε.
        elif Fraction(epsilon) >= self._pure:
            return 0.0
        else:
            parts = -np.expm1(np.minimum(epsilon - losses, 0.0))
        return float(chances @ parts + unbounded) * _FACTOR

    def epsilon(self, delta: float) -> float:
        """Return ε at δ.

        Raises:
            ValueError: δ is not in (0, 1), or is so small that no finite ε is found.
        """
        if not 0 < delta < 1:
            raise ValueError(f"delta is {delta!r}; it needs a number strictly between 0 and 1")
        if self.delta(0.0) <= delta:
            return 0.0
        low, high = 0.0, 1.0
        while self.delta(high) > delta:
            low, high = high, 2 * high
            if high > privacy.MAX_PARAMETER:
                raise ValueError(f"delta is {delta!r}; what was released is beyond what is resolved there")
        while high - low > 1e-9 * high:
            middle = (low + high) / 2
            # `high` keeps δ(high) ≤ δ, so the returned end is a guarantee.
            low, high = (middle, high) if self.delta(middle) > delta else (low, middle)
        return high

    @cached_property
    def _pure(self) -> Fraction:
        """The sum of ε of everything except Gaussian noise."""
        tables = (max(map(_total_epsilon, table), default=Fraction(0)) for x in self.released for table in x.tables)
        return sum((e for x in self.released for e in x.answers), Fraction(0)) + sum(tables, Fraction(0))

    @cached_property
    def _mu(self) -> float:
        total = sum((x.mu_squared for x in self.released), Fraction(0))
        return privacy.mu_above(total) if total else 0.0

    @cached_property
    def _law(self) -> tuple[Floats, Floats, float]:
        """Losses of everything except Gaussian noise, their probabilities, and the probability of an unbounded loss."""
        # All probability is an unbounded loss: δ = 1 here, and the curves of the sums remain.
        if self._pure > _MAX_TOTAL_EPSILON:
            return np.zeros(1), np.zeros(1), 1.0
        step = max(_FINEST_STEP, float(self._pure) / _POINTS)
        total = _LossSum(step)
        # Equal laws are added by squaring, in log n steps instead of n.
        for e, n in Counter(e for x in self.released for e in x.answers).items():
            total = total + _response(float(e), step).times(n)
        for table, n in Counter(table for x in self.released for table in x.tables).items():
            total = total + _dominating_law([_of_law(law, step) for law in table], step).times(n)
        return total.losses, total.chances, total.unbounded


def curve(groups: Iterable[CostedGroup], account: Account) -> Curve:
    """Return the curve of all charges to the accounts of a name, for the unit of one of these accounts.

    The curve holds if all plans were fixed in advance. If a plan was chosen after answers of earlier releases, only a
    cap gives a guarantee.

    Args:
        groups: The groups of the name, from :meth:`fitnoise.kernel.ledger.Ledger.groups`.
        account: The account whose unit has the cost.

    Raises:
        LedgerError: Neither μ² nor ε of a charge is known.
    """
    return Curve(tuple(x for group in groups for x in _released(group, account)))


def _released(group: CostedGroup, account: Account) -> Iterator[ReleasedCharge]:
    """Yield the releases of a group: one if all are Gaussian and their joint μ² is known, else one for each charge.

    Gaussian noise on the same records is as private as μ² in the costliest cell, summed cell by cell.
    """
    # The cost of a group is at most the sum of its charges, and less if their costliest cells differ.
    first_charge, *further = (ReleasedCharge.from_entry(entry, account) for entry in group.entries)
    rho, mu_squared = group.rho(account), group.mu_squared(account)
    total = None if rho is None or mu_squared is None else (mu_squared, rho)
    if further and total is not None and not any(x.tables or x.answers for x in (first_charge, *further)):
        yield ReleasedCharge(total[0], total=total)
    else:
        # The first charge carries the total of the group, so that a sum over charges counts it once.
        yield replace(first_charge, total=total)
        yield from (replace(x, total=(Fraction(0), Fraction(0))) for x in further)


def _total_epsilon(law: Law) -> Fraction:
    return sum((e * n for e, n in law), Fraction(0))


# --- laws on a grid ---------------------------------------------------------------------------------------


@final
@dataclass(frozen=True, eq=False)
class _LossSum:
    """Probabilities of the losses (start + i)·step, and of one unbounded loss."""

    step: float
    chances: Floats = field(default_factory=lambda: np.ones(1))
    start: int = 0
    unbounded: float = 0.0

    @property
    def losses(self) -> Floats:
        """The losses of the probabilities, in order."""
        return np.asarray((self.start + np.arange(len(self.chances))) * self.step, dtype=np.float64)

    def __add__(self, other: _LossSum) -> _LossSum:
        chances = np.convolve(self.chances, other.chances)
        return _LossSum(self.step, chances, self.start + other.start, self.unbounded + other.unbounded)._cut()

    def times(self, n: int) -> _LossSum:
        """Return the sum of n independent losses of this law, by repeated squares."""
        out, square = _LossSum(self.step), self
        while n:
            out, n = (out + square, n - 1) if n % 2 else (out, n)
            if n:
                square, n = square + square, n // 2
        return out

    def _cut(self) -> _LossSum:
        """Return the law without its rarest losses: the largest count as unbounded, the smallest as the least kept."""
        above, below = np.cumsum(self.chances[::-1])[::-1], np.cumsum(self.chances)
        keep = np.flatnonzero((above > _TAIL) & (below > _TAIL))
        low, high = int(keep[0]), int(keep[-1]) + 1
        chances = self.chances[low:high].copy()
        # Both moves raise losses, so the curve of the law does not fall.
        chances[0] += float(self.chances[:low].sum())
        return _LossSum(self.step, chances, self.start + low, self.unbounded + float(self.chances[high:].sum()))

    def curve(self, points: Floats) -> Floats:
        """Return δ at these ε, which are points of the grid in increasing order."""
        above = np.append(np.cumsum(self.chances[::-1])[::-1], 0.0)
        weighed = np.append(np.cumsum((self.chances * np.exp(-self.losses))[::-1])[::-1], 0.0)
        # Only losses above ε contribute to δ(ε), so the sums start one point further.
        positions = np.clip(np.rint(points / self.step).astype(int) - self.start + 1, 0, len(self.chances))
        return np.asarray(above[positions] - np.exp(points) * weighed[positions] + self.unbounded)


def _response(epsilon: float, step: float) -> _LossSum:
    """Return the costliest ε-private law: one of two answers, true with odds e^ε (Kairouz, Oh, Viswanath 2015)."""
    high = max(1, math.ceil(epsilon / step))
    fraction = 1.0 if high * step <= epsilon else math.expm1(-(epsilon - (high - 1) * step)) / math.expm1(-step)
    chances = np.zeros(2 * high + 1)
    truth = 1 / (1 + math.exp(-epsilon))
    for j, part in ((high, fraction), (high - 1, 1 - fraction)):
        # ε lies between two grid points. The weights preserve the mean of e^(−loss), and with it the probability under
        # the other neighbour.
        chances[high + j] += truth * part
        chances[high - j] += truth * part * math.exp(-j * step)
    return _LossSum(step, chances, -high)


def _laplace(epsilon: float, step: float) -> _LossSum:
    """Return the loss of a number that moves by ε scales of its continuous Laplace noise.

    Its curve is δ = 1 − e^((x−ε)/2) at −ε ≤ x ≤ ε. With u = e^(x/2), this δ is a line in u. Over t = u², the
    chords between points of the grid have the slopes −e^(−ε/2)/(u + u′). The change of slope from one chord to the next
    is the probability under the other neighbour.
    """
    high, scale = max(1, math.ceil(epsilon / step)), math.exp(-epsilon / 2)
    x = np.arange(-1, high + 1) * step
    u, t = np.exp(x / 2), np.exp(x)
    slopes = scale / (u[1:] + u[:-1])
    # δ is 0 from ε on, so the last chord falls to 0 at the first grid point that is not below ε.
    slopes[-1] = max(0.0, -math.expm1((x[-2] - epsilon) / 2)) / (t[-1] - t[-2])
    # At the grid points 0, 1, …, `high`; the law is symmetric, and the negative points follow below.
    other = slopes - np.append(slopes[1:], 0.0)
    inner = u[2:-1] - u[:-3], (u[1:-2] + u[:-3]) * (u[2:-1] + u[1:-2])
    # Equal to the differences of slopes, without a difference of nearly equal numbers.
    other[: high - 1] = scale * inner[0] / inner[1]
    # Only 0 lies between the two ends, and the probabilities sum to 1.
    if high == 1:
        other[0] = 1 - other[1] * (1 + t[-1])
    return _LossSum(step, np.concatenate([other[:0:-1], other[:1], other[1:] * t[2:]]), -high)


def _of_law(law: Law, step: float) -> _LossSum:
    """Return the sum of the losses of a table's numbers."""
    total = _LossSum(step)
    for epsilon, n in law:
        total = total + _laplace(float(epsilon), step).times(n)
    return total


def _dominating_law(laws: Sequence[_LossSum], step: float) -> _LossSum:
    """Return a law whose curve is at least those of all these laws: their maximum, joined by lines on the grid."""
    if len(laws) == 1:
        return laws[0]
    low = min(x.start for x in laws)
    high = max(x.start + len(x.chances) - 1 for x in laws)
    points = np.asarray(np.arange(low, high + 1) * step, dtype=np.float64)
    top = np.max([x.curve(points) for x in laws], axis=0)
    t = np.exp(points)
    unbounded = float(top[-1])
    slopes = np.append(np.maximum(-np.diff(top), 0.0) / np.diff(t), 0.0)
    # A maximum of convex curves is convex; this removes the rounding that would give negative probabilities.
    slopes = np.maximum.accumulate(slopes[::-1])[::-1]
    before = np.append(1.0, slopes[:-1])
    chances = np.maximum(before - slopes, 0.0) * t
    # Probability that rounding lost counts as an unbounded loss.
    short = 1.0 - unbounded - float(chances.sum())
    return _LossSum(step, chances, low, unbounded + max(0.0, short) + _SLACK)


def _gaussian_delta(mu: float, epsilon: Floats) -> Floats:
    """Return a number that is at least δ_G(μ, ε), at ε of any sign."""
    # The logarithm of the second term: e^ε alone would overflow. Both factors exceed the rounding of the functions.
    high, low = special.ndtr(mu / 2 - epsilon / mu), special.log_ndtr(-mu / 2 - epsilon / mu)
    return np.asarray(np.maximum(high * (1 + 1e-12) - np.exp(epsilon + low) * (1 - 1e-12), 0.0))
