"""Strategies of weighted margins for pure ε: how much of the privacy budget each margin of the data gets.

A strategy asks θ_b times the margin on b, for candidates b among the sets of attributes. A record is in one cell of
each, so Σ_b θ_b is all that Laplace noise of scale 1/ε costs. Whatever the margins, the cells split into sectors, one
per set S of attributes, that least squares treat apart. With θ ≥ 0 and noise of variance 1, sector S is known to the
precision

    Λ_S = Σ_{b ⊇ S} θ_b² / Π_{a ∈ b∖S} n_a = (N θ²)_S,

and a number of a table that shows the attributes A has the variance

    v_A = Σ_{S ⊆ A} Π_{a ∈ S} (1 − 1/n_a) / (Π_{a ∈ A∖S} n_a)² / Λ_S = (U Λ⁻¹)_A.

The search knows no attributes, only the sparse N (sectors × candidates), U (tables × sectors) and a number per table,
into which whatever multiplies the variance of its rows is folded: Σ of the row factors times weights for a total; for
a worst ratio, the least target over row factor. It minimises the log of (Σθ)² φ(v), which is the same for all
multiples of θ, with

    ∂/∂θ_b = 2/Σθ − 2 θ_b (Nᵀ (Uᵀ q / Λ²))_b,   q = ∂ log φ/∂v,

where φ is the weighted total, or the t-norm of v/c for t = 4, 16, …, 1024 in turn.

**What to expect.** At θ_b = 0 the slope is 2/Σθ > 0 in every direction: which margins are asked at all is a
combinatorial choice, and random starts alone are poor. Starts are single candidates, all candidates of one order or of
two, random subsets, and random covers: a few candidates that together contain every table, which are the best there are
once attributes are many. The best ends are improved by one margin more or less at a time. No bound is proven here and
nothing found here is believed: costs are recomputed from the integers of the strategy.

Source: ours. The split into sectors is that of margins under Gaussian noise in the rest of this package; only the price
Σθ, instead of a sum of squares, is that of pure ε.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import reduce
from typing import final

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from fitnoise.errors import WorkloadError
from fitnoise.kernel.arrays import Floats
from fitnoise.solving.fixed import Generator

Bits = NDArray[np.int64]

SHARPNESS = (4.0, 16.0, 64.0, 256.0, 1024.0)
"""t of the t-norms, in turn."""

SCREENING, STEPS = 150, 1000
"""Iterations of every start, and of the best ones after, of each t where there are several."""

MANY = 256
"""Above this many candidates an evaluation costs more, and fewer starts are tried."""

SINGLES = 32
"""Single candidates tried."""

ROUNDS = 10
"""Times one is taken, with every candidate left out or put in, one at a time, improved again, and the best kept."""

MIXED = 8
"""Covers of two orders have fewer than this many candidates of the higher one."""

TINY = 1e-9
"""Shares of Σθ below this are dropped."""

FAINT = 1e-2
"""Share of a candidate that a start needs only so that every sector is covered."""

UNCOVERED = 700.0
"""Log of what nothing at all is worth: about the largest number there is."""

MOST_ATTRIBUTES = 62
"""Bits of a set of attributes."""

Progress = Callable[[int, float], None]
"""Called after every descent with the number of descents so far and the best value so far."""


class Ending(StrEnum):
    """How a search ended. None of these says how far from optimal the result is."""

    FOUND = "all starts were tried; the best is a local optimum, and nothing is proven of it"
    TIME = "stopped at the time limit with the best weights seen so far"


# --- sets of attributes -----------------------------------------------------------------------------


def bits(attributes: Iterable[int]) -> int:
    """A set of attributes, by their numbers, as the bits of an integer."""
    return sum(1 << a for a in set(attributes))


def _members(of: int) -> list[int]:
    return [a for a in range(of.bit_length()) if of >> a & 1]


def _size(of: int, sizes: Sequence[int]) -> int:
    return math.prod(sizes[a] for a in _members(of))


def _subsets(of: int) -> Iterator[int]:
    part = of
    while True:
        yield part
        if part == 0:
            return
        part = (part - 1) & of


def sectors(tables: Sequence[int]) -> Bits:
    """All subsets of the tables' sets of attributes, increasing, (sectors,): what the tables need to know."""
    return np.array(sorted({s for a in tables for s in _subsets(int(a))}), dtype=np.int64)


def candidates(tables: Sequence[int], sizes: Sequence[int], most: int, *, cells: int = 10**7) -> Bits:
    """Margins worth asking: the tables', those above them and those below them.

    Args:
        tables: sets of attributes, as bits.
        sizes: n_a of the attributes.
        most: how many at most; the tables' own are always there.
        cells: margins above the tables' have at most so many cells.

    Returns:
        Increasing, without repeats. If there are too many: the tables' own first, then all their attributes together,
        unions of two tables with the fewest cells, then parts of tables with the most attributes.

    Raises:
        WorkloadError: no table, more than 62 attributes, or a table about an attribute without a size.
    """
    own = sorted({int(a) for a in tables})
    if not own or len(sizes) > MOST_ATTRIBUTES or not 0 <= own[0] <= own[-1] < 1 << len(sizes):
        raise WorkloadError(
            "candidates-unusable",
            f"There are {len(own)} tables and {len(sizes)} sizes of attributes.",
            f"Candidates need a table, at most {MOST_ATTRIBUTES} attributes, and a size for each attribute of a table.",
            "Give tables of attributes that have sizes.",
            "Nothing was computed.",
        )
    whole = reduce(lambda a, b: a | b, own)
    unions = sorted({a | b for a, b in itertools.combinations(own, 2)} - {whole}, key=lambda b: (_size(b, sizes), b))
    above = [b for b in [whole, *unions] if _size(b, sizes) <= cells]
    below = sorted({s for a in own for s in _subsets(a)}, key=lambda b: (-b.bit_count(), b))
    ordered = list(dict.fromkeys([*own, *above, *below]))
    return np.array(sorted(ordered[: max(most, len(own))]), dtype=np.int64)


def matrices(tables: Sequence[int], margins: Sequence[int], sizes: Sequence[int]) -> tuple[sp.csr_array, sp.csr_array]:
    """N and U of the module, for the sectors of :func:`sectors`.

    Args:
        tables: sets of attributes A, as bits.
        margins: candidates b, as bits.
        sizes: n_a of the attributes.

    Returns:
        N (sectors, candidates), [S ⊆ b]/n_{b∖S}; U (tables, sectors), Π_{a∈S} (1 − 1/n_a)/n_{A∖S}² for S ⊆ A.
    """
    needed = sectors(tables)
    place = {int(s): i for i, s in enumerate(needed)}
    information = [
        (place[s], k, 1 / _size(int(b) ^ s, sizes))
        for k, b in enumerate(margins)
        for s in (_subsets(int(b)) if int(b).bit_count() < 12 else place)
        if s in place and s & ~int(b) == 0
    ]
    shares = [
        (j, place[s], math.prod(1 - 1 / sizes[x] for x in _members(s)) / float(_size(int(a) ^ s, sizes)) ** 2)
        for j, a in enumerate(tables)
        for s in _subsets(int(a))
    ]
    return _sparse(information, (len(needed), len(margins))), _sparse(shares, (len(tables), len(needed)))


def _sparse(entries: list[tuple[int, int, float]], shape: tuple[int, int]) -> sp.csr_array:
    rows, columns, values = (np.array(x) for x in zip(*entries, strict=True))
    return sp.csr_array((values.astype(np.float64), (rows.astype(np.intp), columns.astype(np.intp))), shape=shape)


# --- derivatives ------------------------------------------------------------------------------------


@final
class _Objective:
    """Log of (Σθ)² φ(v(θ)); t = None for the total of v times the numbers, else the t-norm of v over the numbers."""

    def __init__(self, information: sp.csr_array, shares: sp.csr_array, numbers: Floats, t: float | None) -> None:
        self.information, self.shares, self.numbers, self.t = information, shares, numbers, t
        self._columns, self._sectors = information.T.tocsr(), shares.T.tocsr()

    def sharper(self, t: float) -> _Objective:
        """The same for another t."""
        return _Objective(self.information, self.shares, self.numbers, t)

    def measure(self, weights: Floats) -> float:
        """(Σθ)² times the total or the worst ratio itself; infinite where a sector is not covered."""
        known = np.asarray(self.information @ weights**2)
        if not (known > 0).all():
            return math.inf
        v = np.asarray(self.shares @ (1 / known))
        wanted = self.numbers @ v if self.t is None else (v / self.numbers).max()
        return float(wanted) * float(weights.sum()) ** 2

    def value_and_gradient(self, weights: Floats) -> tuple[float, Floats]:
        """The value at θ ≥ 0 and its gradient, by way of the multiple that sums to 1: any other might overflow."""
        price = float(weights.sum())
        if price <= 0:
            return UNCOVERED, np.full(len(weights), -1.0)
        theta = weights / price
        known = np.asarray(self.information @ theta**2)
        known = np.maximum(known, 1e-18)  # a sector no longer covered: very dear, but finite
        v = np.asarray(self.shares @ (1 / known))
        if self.t is None:
            size = float(self.numbers @ v)
            value, q = math.log(size), self.numbers / size
        else:
            ratios = v / self.numbers
            top = float(ratios.max())
            powers = (ratios / top) ** (self.t - 1)
            norm = float(powers @ ratios) / top
            value, q = math.log(top) + math.log(norm) / self.t, powers / (self.numbers * (top * norm))
        slopes = np.asarray(self._columns @ (np.asarray(self._sectors @ q) / known**2))
        return value, np.asarray((2 - 2 * theta * slopes) / price)


# --- the search -------------------------------------------------------------------------------------


@final
@dataclass(frozen=True, eq=False)
class MarginWeights:
    """A strategy of weighted margins.

    weights: θ (candidates,), summing to 1; 0 for margins that are not asked. value: what was minimised, per unit of
    noise variance, recomputed from θ. starts: how many were tried. status: how the search ended.
    """

    weights: Floats
    value: float
    starts: int
    status: Ending


class _Search:
    """The best weights seen, and how much may still be done."""

    def __init__(self, objectives: list[_Objective], seconds: float | None, progress: Progress | None) -> None:
        self.objectives, self._progress = objectives, progress
        self._end = math.inf if seconds is None else time.monotonic() + seconds
        self.best, self.weights, self.descents = math.inf, np.zeros(0), 0

    @property
    def over(self) -> bool:
        """Whether the time is up."""
        return time.monotonic() >= self._end

    def see(self, weights: Floats) -> float:
        """Keep the weights if they are the best so far; what they are worth."""
        value = self.objectives[0].measure(weights)
        if value < self.best:
            self.best, self.weights = value, weights
        return value

    def descend(self, start: Floats, which: Sequence[_Objective], steps: int) -> tuple[float, Floats]:
        """From a start through some of the objectives, each started where the last one ended: the best on the way.

        Weights of 0 stay 0 (the slope is positive there), so only the others are varied.
        """
        best, kept, now = self.see(start), start, start
        for objective in which:
            if self.over:
                break
            now = self._one(objective, now, steps)
            value = self.see(now)
            if value < best:
                best, kept = value, now
        self.descents += 1
        if self._progress is not None:
            self._progress(self.descents, self.best)
        return best, kept

    def climb(self, value: float, weights: Floats, shapes: _Shapes) -> None:
        """From the weights to the best of those with one margin more or less, improved, until none is better."""
        for _ in range(ROUNDS):
            around = []
            for start in _neighbours(weights):
                if self.over:
                    return
                around.append(self.descend(shapes.covered(start), self.objectives[-2:], SCREENING))
            best, kept = min(around, key=lambda pair: pair[0], default=(math.inf, weights))
            if best > value * (1 - 1e-6):
                return
            value, weights = best, kept

    def _one(self, objective: _Objective, start: Floats, steps: int) -> Floats:
        import scipy.optimize as so  # takes as long as a small plan

        varied = np.flatnonzero(start)
        part = _Objective(objective.information[:, varied], objective.shares, objective.numbers, objective.t)

        def check(xk: Floats) -> None:
            if self.over:
                raise StopIteration

        found = so.minimize(
            part.value_and_gradient,
            start[varied] / start.sum(),
            jac=True,
            method="L-BFGS-B",
            bounds=so.Bounds(0.0, np.inf),
            callback=check,
            options={"maxiter": steps, "maxcor": 20, "ftol": 1e-12, "gtol": 1e-10, "maxfun": 4 * steps},
        )
        out = np.zeros_like(start)
        out[varied] = found.x
        out[out < TINY * out.sum()] = 0
        return np.asarray(out / out.sum()) if out.any() else start


@final
class _Shapes:
    """Where to start, from which sectors each candidate covers and how many attributes it has."""

    def __init__(self, information: sp.csr_array, orders: NDArray[np.int64], rng: Generator) -> None:
        self._pattern = sp.csr_array(information > 0).astype(np.float64)
        self._columns = self._pattern.T.tocsr()
        self._orders, self._rng = orders, rng
        self._levels = sorted({int(x) for x in orders}, reverse=True)

    def covered(self, weights: Floats) -> Floats:
        """The weights with a little of whatever covers most of the sectors left uncovered, until none is."""
        out = np.array(weights, dtype=np.float64)
        for best in self._filling(out > 0, np.ones(len(out))):
            out[best] = FAINT
        return np.asarray(out / out.sum())

    def _filling(self, asked: NDArray[np.bool_], liked: Floats) -> Iterator[int]:
        """Candidates that cover what those asked do not: at each turn the one of most sectors times liking."""
        missing = np.asarray(self._pattern @ asked.astype(np.float64)) == 0
        while missing.any():
            gain = np.asarray(self._columns @ missing.astype(np.float64))
            best = int(np.argmax(gain * liked))
            missing &= np.asarray(self._columns[[best]].toarray()).ravel() == 0
            yield best

    def _cover(self, level: int, first: int, then: int) -> Floats:
        """A random cover of all sectors: `first` candidates of one order, the rest of another as far as they go."""
        k = len(self._orders)
        chance = self._rng.uniform(0.7, 1.0, size=(k,))
        out = np.zeros(k)
        for order, count in ((level, first), (then, k)):
            liked = np.where(self._orders == order, 1.0, 1e-9) * chance
            out[list(itertools.islice(self._filling(out > 0, liked), count))] = 1.0
        return out

    def all(self, number: int) -> Iterator[Floats]:
        """By order, single candidates by how many sectors they cover, then random covers and subsets."""
        k = len(self._orders)
        yield np.ones(k)
        for level in self._levels:
            yield (self._orders == level).astype(np.float64)
        for high, low in itertools.combinations(self._levels, 2):
            yield (self._orders == high) * 1.0 + (self._orders == low) * 0.5
        reach = np.asarray(self._columns.sum(axis=1)).ravel()
        for b in np.argsort(-reach, kind="stable")[:SINGLES]:
            yield np.eye(1, k, int(b)).ravel()
        for turn in range(number):
            if turn % 4:
                here = int(self._rng.integers(0, len(self._levels), size=(1,))[0])
                then = min(here + turn % 2, len(self._levels) - 1)
                first = int(self._rng.integers(1, MIXED, size=(1,))[0])
                yield self._cover(self._levels[here], first, self._levels[then])
            else:
                draw, size = (self._rng.uniform(0.0, 1.0, size=(k,)) for _ in range(2))
                yield (draw < (0.15, 0.3, 0.5, 0.8)[turn // 4 % 4]) * size


def _neighbours(weights: Floats) -> Iterator[Floats]:
    """The weights with one margin left out, or one put in at the size of the others."""
    asked = np.flatnonzero(weights)
    usual = float(np.median(weights[asked]))
    for b in np.argsort(weights, kind="stable"):
        moved = weights.copy()
        moved[b] = 0.0 if weights[b] > 0 else usual
        if moved.any():
            yield moved


def _search(search: _Search, orders: NDArray[np.int64], rng: Generator, number: int | None) -> MarginWeights:
    number = (256 if len(orders) <= MANY else 64) if number is None else number
    objectives = search.objectives
    shapes = _Shapes(objectives[0].information, orders, rng)
    found: list[tuple[float, Floats]] = []
    tried = 0
    for start in shapes.all(number):
        if tried and search.over:
            break
        tried += 1
        found.append(search.descend(shapes.covered(start), objectives[:1], SCREENING))
    finishers = 4 if len(orders) <= MANY else 2
    ends = [search.descend(weights, objectives, STEPS) for _, weights in _apart(found)[:finishers]]
    for value, weights in _apart(ends):
        search.climb(value, weights, shapes)
    return MarginWeights(search.weights, search.best, tried, Ending.TIME if search.over else Ending.FOUND)


def _apart(found: list[tuple[float, Floats]]) -> list[tuple[float, Floats]]:
    """The best first, without those that are as good as one before: most likely the same."""
    out: list[tuple[float, Floats]] = []
    for value, weights in sorted(found, key=lambda pair: pair[0]):
        if not out or value > out[-1][0] * (1 + 1e-7):
            out.append((value, weights))
    return out


def _checked(
    information: sp.csr_array, shares: sp.csr_array, numbers: ArrayLike
) -> tuple[sp.csr_array, sp.csr_array, Floats]:
    """The matrices without the sectors that no table looks at."""
    n, u = sp.csr_array(information).astype(np.float64), sp.csr_array(shares).astype(np.float64)
    c = np.asarray(numbers, dtype=np.float64)
    if n.shape[0] != u.shape[1] or c.shape != u.shape[:1] or not c.size:
        raise WorkloadError(
            "margin-shapes-differ",
            f"The shapes of information, shares and numbers are {n.shape}, {u.shape} and {c.shape}.",
            "They must be (sectors, candidates), (tables, sectors) and (tables,).",
            "Give arrays of these shapes.",
            "Nothing was computed.",
        )
    if not np.isfinite(c).all() or not (c > 0).all() or n.data.min(initial=0.0) < 0 or u.data.min(initial=0.0) < 0:
        raise WorkloadError(
            "margin-weights-out-of-range",
            "A target is not positive and finite, or an entry of information or shares is below 0.",
            "",
            "Give positive finite targets, and information and shares of at least 0.",
            "Nothing was computed.",
        )
    needed = np.asarray(u.sum(axis=0)).ravel() > 0
    n, u = sp.csr_array(n[needed]), sp.csr_array(u[:, needed])
    if not (np.asarray(n.sum(axis=1)).ravel() > 0).all():
        raise WorkloadError(
            "margin-without-candidate",
            "Some table needs a margin that no candidate contains.",
            "",
            "Add candidates that contain it.",
            "Nothing was computed.",
        )
    return n, u, c


def least_total(
    information: sp.csr_array,
    shares: sp.csr_array,
    weights: ArrayLike,
    orders: ArrayLike,
    rng: Generator,
    *,
    starts: int | None = None,
    max_seconds: float | None = None,
    progress: Progress | None = None,
) -> MarginWeights:
    """Minimise (Σθ)² Σ_A w_A v_A over the weights θ of margins.

    Args:
        information: N (sectors, candidates), at least 0, sparse.
        shares: U (tables, sectors), at least 0, sparse.
        weights: w (tables,), positive: Σ over the table's rows of weight times row factor.
        orders: how many attributes each candidate has (candidates,); used to choose starts only.
        rng: chooses the random starts.
        starts: how many random covers and subsets to try, beside those by order. Default: 256 up to MANY candidates,
            64 above.
        max_seconds: limit of the time taken, checked between iterations; one start is always tried.
        progress: called after every descent.

    Raises:
        WorkloadError: shapes that do not fit, numbers that are not positive, or a sector that no candidate covers.

    **Guarantees**: `value` is that of `weights`, which cover every sector looked at; never worse than any of the
    starts, single candidates among them (at most SINGLES, those that cover most). No bound is proven.

    Source: the module's.
    """
    n, u, w = _checked(information, shares, weights)
    objectives = [_Objective(n, u, w, None)]
    return _search(_Search(objectives, max_seconds, progress), _orders(orders, n), rng, starts)


def least_worst(
    information: sp.csr_array,
    shares: sp.csr_array,
    targets: ArrayLike,
    orders: ArrayLike,
    rng: Generator,
    *,
    starts: int | None = None,
    max_seconds: float | None = None,
    progress: Progress | None = None,
) -> MarginWeights:
    """Minimise (Σθ)² max_A v_A/c_A over the weights θ of margins.

    Args:
        information: N (sectors, candidates), at least 0, sparse.
        shares: U (tables, sectors), at least 0, sparse.
        targets: c (tables,), positive: the least over the table's rows of target over row factor.
        orders: how many attributes each candidate has (candidates,); used to choose starts only.
        rng: chooses the random starts.
        starts: how many random covers and subsets to try, beside those by order. Default: 256 up to MANY candidates,
            64 above.
        max_seconds: limit of the time taken, checked between iterations; one start is always tried.
        progress: called after every descent.

    Raises:
        WorkloadError: shapes that do not fit, numbers that are not positive, or a sector that no candidate covers.

    **Guarantees**: as :func:`least_total`.

    Source: the module's.
    """
    n, u, c = _checked(information, shares, targets)
    first = _Objective(n, u, c, SHARPNESS[0])
    objectives = [first, *(first.sharper(t) for t in SHARPNESS[1:])]
    return _search(_Search(objectives, max_seconds, progress), _orders(orders, n), rng, starts)


def _orders(orders: ArrayLike, information: sp.csr_array) -> NDArray[np.int64]:
    out = np.asarray(orders, dtype=np.int64)
    if out.shape != information.shape[1:]:
        raise WorkloadError(
            "candidate-orders-misfit",
            f"There are {information.shape[1]} candidates, and the orders have the shape {out.shape}.",
            "",
            "Give one order for each candidate.",
            "Nothing was computed.",
        )
    return out
