"""Everything that one account released, as one curve: δ at every ε, of all of it together.

A cap adds up ρ, μ² or ε, and holds whatever is chosen next. What has been released is known better than by a sum: the
privacy losses of independent draws add, and their laws are known, so the law of the sum is. It is put together here
from what the ledger keeps of each charge, for plans that were fixed in advance:

    δ(ε) = Σ_l P(l) δ_G(μ′, ε − l),

where μ′² is that of all Gaussian noise together, with its curve δ_G (docs/mathematics/exact_curve.md), and l the sum
of the losses of everything else: of a number with discrete Laplace noise, and of an answer of which only its ε
is known.

Laws are kept on a grid of losses on which no curve is less than it is: of the convex function δ of e^ε the points on
the grid are joined by straight lines (Doroshenko, Ghazi, Kamath, Kumar and Manurangsi, *Connect the dots*, 2022).
Positive numbers are added and multiplied, so that rounding is a part of each of them, and `_FACTOR` is more than all of
it; where curves are subtracted `_SLACK` is.
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

FIXED_IN_ADVANCE: Final = "if all plans were fixed in advance, none after an answer of another one"
"""The condition under which a curve holds: it is printed wherever a number of the curve is."""

_POINTS = 2**14
"""Points of a grid on either side of 0, at most."""

_FINEST = 2.0**-10
"""Distance of its points, where that covers all losses."""

_LARGEST = 500
"""Of all ε together: what is larger leaves the numbers of a machine, and promises nothing."""

_TAIL = 1e-25
"""Probability of the largest losses of a sum that is taken for certain loss, at most."""

_FACTOR = 1 + 1e-8
"""More than the rounding of 10⁵ sums of 10⁵ positive numbers."""

_SLACK = 1e-11
"""More than the rounding of the maximum of several curves, of a table whose dearest unit depends on ε."""

_SHIFT = 1e-12
"""As of :func:`fitnoise.kernel.privacy.lattice_delta`."""

Law = tuple[tuple[Fraction, int], ...]
"""ε of numbers with Laplace noise, and how many have it."""


class Priced(Protocol):
    """What a charge costs one unit, as much of it as is added up here."""

    @property
    def rho(self) -> Fraction:
        """ρ."""

    @property
    def epsilon(self) -> Fraction | None:
        """ε of what is pure."""

    @property
    def known_mu_squared(self) -> Fraction | None:
        """μ², where it is known."""


class Line(Protocol):
    """An entry of a ledger beside what it costs: what it is, whose, and what it says."""

    @property
    def kind(self) -> str:
        """Which it is: "charge" of one that was spent."""

    @property
    def account(self) -> Account:
        """Whose it is."""

    @property
    def detail(self) -> Mapping[str, Any]:
        """What it says beside its cost; of a charge the hash of its plan, under "plan"."""


class Entry(Line, Protocol):
    """An entry of a ledger, as much of it as is added up: :class:`fitnoise.kernel.ledger.Entry` is one."""

    @property
    def sequence(self) -> int:
        """Its number."""

    def price(self, of: Account) -> Priced | None:
        """What it cost the unit of an account of its name."""


class Group(Protocol):
    """Charges on the same records: :class:`fitnoise.kernel.ledger.Group` is one."""

    @property
    def entries(self) -> Sequence[Entry]:
        """Each of them."""

    def rho(self, of: Account) -> Fraction | None:
        """ρ of all of them together, for the unit of an account."""

    def mu_squared(self, of: Account) -> Fraction | None:
        """μ² of all of them together, likewise."""


@final
@dataclass(frozen=True)
class Released:
    """What one charge let go, or several on the same records.

    mu_squared: μ′² of its Gaussian noise. tables: of each table with Laplace noise, the laws of the units of which none
    pays less than another in all numbers. answers: ε of what is known to be ε-private, and no more. whole: μ² and ρ of
    all of it, where they are known.
    """

    mu_squared: Fraction = Fraction(0)
    tables: tuple[tuple[Law, ...], ...] = ()
    answers: tuple[Fraction, ...] = ()
    whole: tuple[Fraction, Fraction] | None = None

    @classmethod
    def of(cls, entry: Entry, account: Account) -> Released:
        """What the ledger knows of a charge, for one account of its name.

        Raises:
            LedgerError: it is known neither in μ² nor in ε, as of Gaussian noise on a coarse lattice.
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
        own, whole = entry.account == account, (mu_squared, price.rho)
        numbers, margins = entry.detail.get("numbers", []), entry.detail.get("margins", [])
        if own and "gaussian" in entry.detail and None not in numbers and (numbers or not margins):
            laws = tuple(tuple(tuple((Fraction(e), n) for e, n in law) for law in table) for table in numbers)
            answers = tuple(Fraction(x["epsilon"]) for x in entry.detail.get("finite", []))
            return cls(Fraction(entry.detail["gaussian"]), laws, answers, whole)
        epsilon = price.epsilon
        if epsilon is not None and privacy.pure_mu_squared(epsilon) <= mu_squared * (1 + Fraction(1, 10**9)):
            return cls(answers=(epsilon,), whole=whole)  # its own curve is below that of the Gaussian it implies
        return cls(mu_squared, whole=whole)


@final
@dataclass(frozen=True)
class Curve:
    """δ at every ε of some releases together.

    **Guarantees**
        * `delta` is no less than the least δ at which all that was released is (ε, δ)-differentially private, where
          what was asked in each release did not depend on the answers of those before;
        * `epsilon` is an ε at which `delta` is at most the δ given.
    """

    released: tuple[Released, ...]

    def delta(self, epsilon: float) -> float:
        """δ at ε ≥ 0: at most 1.

        Raises:
            ValueError: ε is negative or not finite.
        """
        if not 0 <= epsilon < math.inf:
            raise ValueError(f"epsilon is {epsilon!r}; it needs a finite number of at least 0")
        return min(1.0, self._added_up(epsilon), *(x(epsilon) for x in self._sums))

    @cached_property
    def _sums(self) -> tuple[Callable[[float], float], ...]:
        """What the sums of μ² and of ρ say, where they are known: less, of numbers that are small for the grid."""
        known = [x.whole for x in self.released if x.whole is not None]
        if not known or len(known) < len(self.released):
            return ()
        mu_squared, rho = (sum(x, Fraction(0)) for x in zip(*known, strict=True))
        return partial(privacy.lattice_delta, privacy.mu_above(mu_squared)), partial(privacy.zcdp_delta, rho)

    def _added_up(self, epsilon: float) -> float:
        losses, chances, beyond = self._law
        mu = self._mu
        if mu > 0:
            parts = _gaussian_delta(mu, epsilon - losses - _SHIFT)
        elif Fraction(epsilon) >= self._pure:
            return 0.0
        else:
            parts = -np.expm1(np.minimum(epsilon - losses, 0.0))
        return float(chances @ parts + beyond) * _FACTOR

    def epsilon(self, delta: float) -> float:
        """ε at δ.

        Raises:
            ValueError: δ is not in (0, 1), or so small that no finite ε is found for it.
        """
        if not 0 < delta < 1:
            raise ValueError(f"delta is {delta!r}; it needs a number strictly between 0 and 1")
        if self.delta(0.0) <= delta:
            return 0.0
        low, high = 0.0, 1.0
        while self.delta(high) > delta:
            low, high = high, 2 * high
            if high > privacy.LARGEST:
                raise ValueError(f"delta is {delta!r}; what was released is beyond what is resolved there")
        while high - low > 1e-9 * high:
            middle = (low + high) / 2
            low, high = (middle, high) if self.delta(middle) > delta else (low, middle)
        return high

    @cached_property
    def _pure(self) -> Fraction:
        """Σ ε of all but Gaussian noise."""
        tables = (max(map(_whole, table), default=Fraction(0)) for x in self.released for table in x.tables)
        return sum((e for x in self.released for e in x.answers), Fraction(0)) + sum(tables, Fraction(0))

    @cached_property
    def _mu(self) -> float:
        total = sum((x.mu_squared for x in self.released), Fraction(0))
        return privacy.mu_above(total) if total else 0.0

    @cached_property
    def _law(self) -> tuple[Floats, Floats, float]:
        """Losses of all but Gaussian noise, with their probabilities; and that of a loss beyond all bounds."""
        if self._pure > _LARGEST:
            return np.zeros(1), np.zeros(1), 1.0
        step = max(_FINEST, float(self._pure) / _POINTS)
        total = _Sum(step)
        for e, n in Counter(e for x in self.released for e in x.answers).items():
            total = total + _response(float(e), step).times(n)
        for table, n in Counter(table for x in self.released for table in x.tables).items():
            total = total + _dearest([_of_law(law, step) for law in table], step).times(n)
        return total.losses, total.chances, total.beyond


def curve(groups: Iterable[Group], account: Account) -> Curve:
    """Of all that was charged to the accounts of a name, what it costs the unit of one of them.

    The curve holds if all plans were fixed in advance. For plans that were chosen after answers of earlier releases
    only a cap promises anything.

    Args:
        groups: of the name, as :meth:`fitnoise.kernel.ledger.Ledger.groups` tells them.
        account: whose.

    Raises:
        LedgerError: of a charge too little is known.
    """
    return Curve(tuple(x for group in groups for x in _released(group, account)))


def _released(group: Group, account: Account) -> Iterator[Released]:
    """What a group let go: as one where all of it is Gaussian, and charge by charge otherwise.

    Gaussian noise on the same records is as private as its μ² in the dearest cell, cell by cell added up.
    """
    first, *others = (Released.of(entry, account) for entry in group.entries)
    rho, mu_squared = group.rho(account), group.mu_squared(account)
    whole = None if rho is None or mu_squared is None else (mu_squared, rho)
    if others and whole is not None and not any(x.tables or x.answers for x in (first, *others)):
        yield Released(whole[0], whole=whole)
    else:
        yield replace(first, whole=whole)
        yield from (replace(x, whole=(Fraction(0), Fraction(0))) for x in others)


def _whole(law: Law) -> Fraction:
    return sum((e * n for e, n in law), Fraction(0))


# --- laws on a grid ---------------------------------------------------------------------------------------


@final
@dataclass(frozen=True, eq=False)
class _Sum:
    """Probabilities of the losses (first + i)·step, and of one beyond all bounds."""

    step: float
    chances: Floats = field(default_factory=lambda: np.ones(1))
    first: int = 0
    beyond: float = 0.0

    @property
    def losses(self) -> Floats:
        """Where the probabilities are."""
        return np.asarray((self.first + np.arange(len(self.chances))) * self.step, dtype=np.float64)

    def __add__(self, other: _Sum) -> _Sum:
        chances = np.convolve(self.chances, other.chances)
        return _Sum(self.step, chances, self.first + other.first, self.beyond + other.beyond)._cut()

    def times(self, n: int) -> _Sum:
        """The sum of so many independent ones, by squares."""
        out, square = _Sum(self.step), self
        while n:
            out, n = (out + square, n - 1) if n % 2 else (out, n)
            if n:
                square, n = square + square, n // 2
        return out

    def _cut(self) -> _Sum:
        """Without the rarest losses: the largest are taken for certain, the least for the least that is left."""
        above, below = np.cumsum(self.chances[::-1])[::-1], np.cumsum(self.chances)
        keep = np.flatnonzero((above > _TAIL) & (below > _TAIL))
        low, high = int(keep[0]), int(keep[-1]) + 1
        chances = self.chances[low:high].copy()
        chances[0] += float(self.chances[:low].sum())
        return _Sum(self.step, chances, self.first + low, self.beyond + float(self.chances[high:].sum()))

    def curve(self, points: Floats) -> Floats:
        """δ at these ε, which are points of the grid in increasing order."""
        above = np.append(np.cumsum(self.chances[::-1])[::-1], 0.0)
        weighed = np.append(np.cumsum((self.chances * np.exp(-self.losses))[::-1])[::-1], 0.0)
        place = np.clip(np.rint(points / self.step).astype(int) - self.first + 1, 0, len(self.chances))
        return np.asarray(above[place] - np.exp(points) * weighed[place] + self.beyond)


def _response(epsilon: float, step: float) -> _Sum:
    """The dearest of what is ε-private: one of two answers, told truly with odds e^ε (Kairouz, Oh, Viswanath 2015)."""
    high = max(1, math.ceil(epsilon / step))
    share = 1.0 if high * step <= epsilon else math.expm1(-(epsilon - (high - 1) * step)) / math.expm1(-step)
    chances = np.zeros(2 * high + 1)
    truth = 1 / (1 + math.exp(-epsilon))
    for j, part in ((high, share), (high - 1, 1 - share)):
        chances[high + j] += truth * part  # e^(−loss) is kept on average, and so is what it is told with otherwise
        chances[high - j] += truth * part * math.exp(-j * step)
    return _Sum(step, chances, -high)


def _laplace(epsilon: float, step: float) -> _Sum:
    """The loss of a number with continuous Laplace noise that moves by ε: δ = 1 − e^((x−ε)/2) at −ε ≤ x ≤ ε.

    With u = e^(x/2) that is a line in u; of the chords over t = u² between points of the grid, the slopes are
    −e^(−ε/2)/(u + u′), and what they change by from one chord to the next is the probability of the other neighbour.
    """
    high, scale = max(1, math.ceil(epsilon / step)), math.exp(-epsilon / 2)
    x = np.arange(-1, high + 1) * step
    u, t = np.exp(x / 2), np.exp(x)
    slopes = scale / (u[1:] + u[:-1])
    slopes[-1] = max(0.0, -math.expm1((x[-2] - epsilon) / 2)) / (t[-1] - t[-2])  # to the last point δ falls to 0
    other = slopes - np.append(slopes[1:], 0.0)  # at 0, 1, …, high
    inner = u[2:-1] - u[:-3], (u[1:-2] + u[:-3]) * (u[2:-1] + u[1:-2])
    other[: high - 1] = scale * inner[0] / inner[1]  # the same, without a difference of what is nearly equal
    if high == 1:  # 0 alone is left between the two ends
        other[0] = 1 - other[1] * (1 + t[-1])
    return _Sum(step, np.concatenate([other[:0:-1], other[:1], other[1:] * t[2:]]), -high)


def _of_law(law: Law, step: float) -> _Sum:
    """The sum of the losses of the numbers of a table."""
    total = _Sum(step)
    for epsilon, n in law:
        total = total + _laplace(float(epsilon), step).times(n)
    return total


def _dearest(laws: Sequence[_Sum], step: float) -> _Sum:
    """A law whose curve is above those of all of these: their maximum, joined on the grid."""
    if len(laws) == 1:
        return laws[0]
    first = min(x.first for x in laws)
    high = max(x.first + len(x.chances) - 1 for x in laws)
    points = np.asarray(np.arange(first, high + 1) * step, dtype=np.float64)
    top = np.max([x.curve(points) for x in laws], axis=0)
    t = np.exp(points)
    beyond = float(top[-1])
    slopes = np.append(np.maximum(-np.diff(top), 0.0) / np.diff(t), 0.0)
    slopes = np.maximum.accumulate(slopes[::-1])[::-1]  # convex, but for rounding
    before = np.append(1.0, slopes[:-1])
    chances = np.maximum(before - slopes, 0.0) * t
    short = 1.0 - beyond - float(chances.sum())
    return _Sum(step, chances, first, beyond + max(0.0, short) + _SLACK)


def _gaussian_delta(mu: float, epsilon: Floats) -> Floats:
    """No less than δ_G(μ, ε), at ε of any sign."""
    high, low = special.ndtr(mu / 2 - epsilon / mu), special.log_ndtr(-mu / 2 - epsilon / mu)
    return np.asarray(np.maximum(high * (1 + 1e-12) - np.exp(epsilon + low) * (1 - 1e-12), 0.0))
