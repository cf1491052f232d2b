"""Strategies of weighted margins for pure ε-DP: the share of the privacy budget that each margin of the data gets.

**Symbols.**

| letter | meaning |
|---|---|
| b, θ_b | a candidate, a set of attributes, and the weight of its margin, θ ≥ 0 |
| S, Λ_S | a sector, one for each set of attributes, and its precision for noise of variance 1 |
| A, v_A | the attributes of a table, and the variance of its numbers |
| w, c | for each table, its weight in a total, or its target for a worst ratio |
| n_a | the number of values of attribute a |
| N, U | sparse matrices (sectors × candidates) and (tables × sectors) |

**Statement.** A strategy measures θ_b times the margin on b. A record is in one cell of each margin, so Σ_b θ_b is the
full cost of Laplace noise of scale 1/ε. For any margins, the cells split into sectors that least squares estimate
separately. The precision of a sector and the variance of a table's numbers are

    Λ_S = Σ_{b ⊇ S} θ_b² / Π_{a ∈ b∖S} n_a = (N θ²)_S,

    v_A = Σ_{S ⊆ A} Π_{a ∈ S} (1 − 1/n_a) / (Π_{a ∈ A∖S} n_a)² / Λ_S = (U Λ⁻¹)_A.

The search has no attributes, only N, U and a number for each table. For a total, this number is Σ of the row factors
times weights. For a worst ratio, it is the least target over row factor. The search minimises the log of (Σθ)² φ(v),
which is equal for all multiples of θ, with

    ∂/∂θ_b = 2/Σθ − 2 θ_b (Nᵀ (Uᵀ q / Λ²))_b,   q = ∂ log φ/∂v.

Here φ is the weighted total, or the t-norm of v/c for t = 4, 16, …, 1024 in turn.

**Limits.** At θ_b = 0 the slope is 2/Σθ > 0 in every direction. The set of measured margins is therefore a
combinatorial choice, and random starts alone are poor. Starts are all candidates, those of one order (number of
attributes) or of two, single ones, random subsets, and random covers. A cover is a few candidates that together contain
every table. The search then adds or removes one margin at a time from the best results. It proves no bound.

**Source.** This project. The split into sectors is that of margins under Gaussian noise in the rest of this package.
Only the cost Σθ, in place of a sum of squares, is that of pure ε-DP.

**Trust.** Nothing found here is believed: costs are recomputed from the integers of the strategy.
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
from fitnoise.solving.fixed_random import Generator

Bits = NDArray[np.int64]

SHARPNESS = (4.0, 16.0, 64.0, 256.0, 1024.0)
"""The values of t of the t-norms, in turn."""

SCREENING, STEPS = 150, 1000
"""The iterations of every start, and those of the best ones after; with several t, those of each t."""

MANY_CANDIDATES = 256
"""The number of candidates above which an evaluation costs more, and fewer starts are tried."""

MAX_SINGLE_CANDIDATES = 32
"""The number of single candidates tried."""

ROUNDS = 10
"""The largest number of rounds of local search. A round adds or removes every candidate, one at a time, improves the
results, and keeps the best."""

MAX_MIXED_COVERS = 8
"""The number of candidates of the higher order, in covers of two orders, is below this bound."""

MIN_SHARE = 1e-9
"""The share of Σθ below which a weight is dropped."""

START_SHARE = 1e-2
"""The share of a candidate that a start needs only to cover every sector."""

UNCOVERED_LOG_COST = 700.0
"""The log of the objective without any weight: close to the log of the largest double."""

MAX_BITS = 62
"""The number of bits of a set of attributes."""

Progress = Callable[[int, float], None]
"""A function called after every descent with the number of descents and the best value so far."""


class MarginSearchStatus(StrEnum):
    """The reason why a search ended. None of these states how far from optimal the result is."""

    LOCAL_OPTIMUM = "all starts were tried; the best is a local optimum, and nothing is proven about it"
    TIME = "stopped at the time limit with the best weights seen so far"


# --- sets of attributes -----------------------------------------------------------------------------


def bits(attributes: Iterable[int]) -> int:
    """Return a set of attributes, given by their numbers, as the bits of an integer."""
    return sum(1 << a for a in set(attributes))


def _members(margin: int) -> list[int]:
    return [a for a in range(margin.bit_length()) if margin >> a & 1]


def _size(margin: int, sizes: Sequence[int]) -> int:
    return math.prod(sizes[a] for a in _members(margin))


def _subsets(margin: int) -> Iterator[int]:
    part = margin
    while True:
        yield part
        if part == 0:
            return
        # The subtraction borrows through all bits outside the margin, so the subsets come in falling order, each once.
        part = (part - 1) & margin


def sectors(tables: Sequence[int]) -> Bits:
    """Return all subsets of the tables' sets of attributes, increasing, (sectors,): the sectors that tables need."""
    return np.array(sorted({s for a in tables for s in _subsets(int(a))}), dtype=np.int64)


def candidates(tables: Sequence[int], sizes: Sequence[int], max_count: int, *, cells: int = 10**7) -> Bits:
    """Return the margins that are candidates: the tables', those above them and those below them.

    Args:
        tables: Sets of attributes, as bits.
        sizes: n_a of the attributes.
        max_count: The largest number of candidates; those of the tables are always among them.
        cells: The largest number of cells of a margin above the tables'.

    Returns:
        The candidates, increasing, without repeats. If there are too many, the tables' own are kept first. Then come
        all their attributes together, unions of two tables with the fewest cells, and parts of tables with the most
        attributes.

    Raises:
        WorkloadError: There is no table, there are more than 62 attributes, or a table has an attribute without a size.
    """
    masks = sorted({int(a) for a in tables})
    if not masks or len(sizes) > MAX_BITS or not 0 <= masks[0] <= masks[-1] < 1 << len(sizes):
        raise WorkloadError(
            "candidates-unusable",
            f"There are {len(masks)} tables and {len(sizes)} sizes of attributes.",
            f"Candidates need a table, at most {MAX_BITS} attributes, and a size for each attribute of a table.",
            "Give tables of attributes that have sizes.",
            "Nothing was computed.",
        )
    union = reduce(lambda a, b: a | b, masks)
    unions = sorted({a | b for a, b in itertools.combinations(masks, 2)} - {union}, key=lambda b: (_size(b, sizes), b))
    above = [b for b in [union, *unions] if _size(b, sizes) <= cells]
    below = sorted({s for a in masks for s in _subsets(a)}, key=lambda b: (-b.bit_count(), b))
    # The tables' own margins come first: with them alone every sector is covered, for any limit.
    ordered = list(dict.fromkeys([*masks, *above, *below]))
    return np.array(sorted(ordered[: max(max_count, len(masks))]), dtype=np.int64)


def matrices(tables: Sequence[int], margins: Sequence[int], sizes: Sequence[int]) -> tuple[sp.csr_array, sp.csr_array]:
    """Return N and U of the module, for the sectors of :func:`sectors`.

    Args:
        tables: Sets of attributes A, as bits.
        margins: Candidates b, as bits.
        sizes: n_a of the attributes.

    Returns:
        N (sectors, candidates), [S ⊆ b]/n_{b∖S}; U (tables, sectors), Π_{a∈S} (1 − 1/n_a)/n_{A∖S}² for S ⊆ A.
    """
    needed = sectors(tables)
    index = {int(s): i for i, s in enumerate(needed)}
    information = [
        (index[s], k, 1 / _size(int(b) ^ s, sizes))
        for k, b in enumerate(margins)
        # A margin of many attributes has more subsets than there are sectors.
        for s in (_subsets(int(b)) if int(b).bit_count() < 12 else index)
        if s in index and s & ~int(b) == 0
    ]
    shares = [
        (j, index[s], math.prod(1 - 1 / sizes[x] for x in _members(s)) / float(_size(int(a) ^ s, sizes)) ** 2)
        for j, a in enumerate(tables)
        for s in _subsets(int(a))
    ]
    return _sparse(information, (len(needed), len(margins))), _sparse(shares, (len(tables), len(needed)))


def _sparse(entries: list[tuple[int, int, float]], shape: tuple[int, int]) -> sp.csr_array:
    rows, columns, values = (np.array(x) for x in zip(*entries, strict=True))
    return sp.csr_array((values.astype(np.float64), (rows.astype(np.intp), columns.astype(np.intp))), shape=shape)


# --- derivatives ------------------------------------------------------------------------------------


@final
class _MarginObjective:
    """The log of (Σθ)² φ(v(θ)); t = None for the total of v times the numbers, else the t-norm of their ratios."""

    def __init__(self, information: sp.csr_array, shares: sp.csr_array, numbers: Floats, t: float | None) -> None:
        self.information, self.shares, self.numbers, self.t = information, shares, numbers, t
        # Kept as rows, too: each gradient multiplies by both transposes.
        self._columns, self._sectors = information.T.tocsr(), shares.T.tocsr()

    def sharper(self, t: float) -> _MarginObjective:
        """Return this objective for another t."""
        return _MarginObjective(self.information, self.shares, self.numbers, t)

    def measure(self, weights: Floats) -> float:
        """Return (Σθ)² times the total or the worst ratio itself; infinite if a sector is not covered."""
        precisions = np.asarray(self.information @ weights**2)
        if not (precisions > 0).all():
            return math.inf
        v = np.asarray(self.shares @ (1 / precisions))
        objective = self.numbers @ v if self.t is None else (v / self.numbers).max()
        return float(objective) * float(weights.sum()) ** 2

    def value_and_gradient(self, weights: Floats) -> tuple[float, Floats]:
        """Return the value at θ ≥ 0 and its gradient, (candidates,)."""
        # Computed from the multiple of θ that sums to 1, since any other might overflow.
        price = float(weights.sum())
        if price <= 0:
            return UNCOVERED_LOG_COST, np.full(len(weights), -1.0)
        theta = weights / price
        precisions = np.asarray(self.information @ theta**2)
        precisions = np.maximum(precisions, 1e-18)  # a sector no longer covered: very costly, but finite
        v = np.asarray(self.shares @ (1 / precisions))
        if self.t is None:
            size = float(self.numbers @ v)
            value, q = math.log(size), self.numbers / size
        else:
            ratios = v / self.numbers
            top = float(ratios.max())
            # Relative to the largest ratio: powers of 1024 of the ratios themselves would overflow.
            powers = (ratios / top) ** (self.t - 1)
            norm = float(powers @ ratios) / top
            value, q = math.log(top) + math.log(norm) / self.t, powers / (self.numbers * (top * norm))
        slopes = np.asarray(self._columns @ (np.asarray(self._sectors @ q) / precisions**2))
        return value, np.asarray((2 - 2 * theta * slopes) / price)


# --- the search -------------------------------------------------------------------------------------


@final
@dataclass(frozen=True, eq=False)
class MarginWeights:
    """A strategy of weighted margins.

    weights: θ (candidates,), summing to 1; 0 for margins that are not measured.
    value: The minimised quantity, per unit of noise variance, recomputed from θ.
    starts: The number of starts tried.
    status: The reason why the search ended.
    """

    weights: Floats
    value: float
    starts: int
    status: MarginSearchStatus


class _WeightSearch:
    """The best weights found, and the limits of the search."""

    def __init__(self, objectives: list[_MarginObjective], seconds: float | None, progress: Progress | None) -> None:
        self.objectives, self._progress = objectives, progress
        self._end = math.inf if seconds is None else time.monotonic() + seconds
        self.best, self.weights, self.descents = math.inf, np.zeros(0), 0

    @property
    def is_over(self) -> bool:
        """True if the time is up."""
        return time.monotonic() >= self._end

    def update(self, weights: Floats) -> float:
        """Keep the weights if they are the best so far, and return their value."""
        value = self.objectives[0].measure(weights)
        if value < self.best:
            self.best, self.weights = value, weights
        return value

    def descend(self, start: Floats, which: Sequence[_MarginObjective], steps: int) -> tuple[float, Floats]:
        """Descend from a start through the objectives `which`, each from the end of the last, in `steps` iterations.

        Return the best value of `objectives[0].measure` found, and its weights. Weights of 0 stay 0.
        """
        # The start itself counts, so that the result is never worse.
        best, best_weights, now = self.update(start), start, start
        for objective in which:
            if self.is_over:
                break
            now = self._one(objective, now, steps)
            value = self.update(now)
            if value < best:
                best, best_weights = value, now
        self.descents += 1
        if self._progress is not None:
            self._progress(self.descents, self.best)
        return best, best_weights

    def climb(self, value: float, weights: Floats, shapes: _Shapes) -> None:
        """Go to the best of the weights with one margin more or less, improved, until none is better.

        The climb also ends after ROUNDS rounds, and when the time is up. The search keeps the best weights.
        """
        for _ in range(ROUNDS):
            around = []
            for start in _neighbours(weights):
                if self.is_over:
                    return
                # The start is near an optimum, so the sharpest objectives are enough.
                around.append(self.descend(shapes.covered(start), self.objectives[-2:], SCREENING))
            # The best of all neighbours, and not the first that is better: the order of margins must not decide.
            best, best_weights = min(around, key=lambda pair: pair[0], default=(math.inf, weights))
            if best > value * (1 - 1e-6):
                return
            value, weights = best, best_weights

    def _one(self, objective: _MarginObjective, start: Floats, steps: int) -> Floats:
        import scipy.optimize as so  # takes as long as a small plan

        # At θ_b = 0 the slope is positive in every direction, so a weight of 0 would stay 0.
        varied = np.flatnonzero(start)
        part = _MarginObjective(objective.information[:, varied], objective.shares, objective.numbers, objective.t)

        def check(xk: Floats) -> None:
            if self.is_over:
                # SciPy then returns the weights so far.
                raise StopIteration

        result = so.minimize(
            part.value_and_gradient,
            start[varied] / start.sum(),
            jac=True,
            method="L-BFGS-B",
            bounds=so.Bounds(0.0, np.inf),
            callback=check,
            options={"maxiter": steps, "maxcor": 20, "ftol": 1e-12, "gtol": 1e-10, "maxfun": 4 * steps},
        )
        out = np.zeros_like(start)
        out[varied] = result.x
        out[out < MIN_SHARE * out.sum()] = 0
        return np.asarray(out / out.sum()) if out.any() else start


@final
class _Shapes:
    """The starts of a search, from the sectors that each candidate covers and its number of attributes."""

    def __init__(self, information: sp.csr_array, orders: NDArray[np.int64], rng: Generator) -> None:
        self._pattern = sp.csr_array(information > 0).astype(np.float64)
        self._columns = self._pattern.T.tocsr()
        self._orders, self._rng = orders, rng
        self._levels = sorted({int(x) for x in orders}, reverse=True)

    def covered(self, weights: Floats) -> Floats:
        """Return the weights plus small ones for the candidates that cover most of the rest, until all is covered."""
        out = np.array(weights, dtype=np.float64)
        for best in self._filling(out > 0, np.ones(len(out))):
            out[best] = START_SHARE
        return np.asarray(out / out.sum())

    def _filling(self, chosen: NDArray[np.bool_], liked: Floats) -> Iterator[int]:
        """Yield candidates that cover the rest: at each turn the one with the most uncovered sectors times liking.

        chosen: True for the candidates whose sectors are covered before, (candidates,).
        liked: The liking of each candidate, (candidates,).
        """
        missing = np.asarray(self._pattern @ chosen.astype(np.float64)) == 0
        while missing.any():
            # The greedy rule for set cover: its covers have few margins, and every further one takes a share of the
            # budget.
            gain = np.asarray(self._columns @ missing.astype(np.float64))
            best = int(np.argmax(gain * liked))
            missing &= np.asarray(self._columns[[best]].toarray()).ravel() == 0
            yield best

    def _cover(self, level: int, leading: int, then: int) -> Floats:
        """Return a random cover of all sectors: `leading` candidates of one order, the rest of another if possible."""
        k = len(self._orders)
        draws = self._rng.uniform(0.7, 1.0, size=(k,))
        out = np.zeros(k)
        for order, count in ((level, leading), (then, k)):
            # Another order is taken only where this one covers nothing more; random draws make the covers differ.
            liked = np.where(self._orders == order, 1.0, 1e-9) * draws
            out[list(itertools.islice(self._filling(out > 0, liked), count))] = 1.0
        return out

    def all(self, number: int) -> Iterator[Floats]:
        """Yield the starts, (candidates,) each, not all of which cover every sector.

        They are all candidates, those of one order or of two, and the MAX_SINGLE_CANDIDATES single ones that cover most
        sectors. Then come `number` random covers and subsets.
        """
        k = len(self._orders)
        yield np.ones(k)
        for level in self._levels:
            yield (self._orders == level).astype(np.float64)
        for high, low in itertools.combinations(self._levels, 2):
            yield (self._orders == high) * 1.0 + (self._orders == low) * 0.5
        reach = np.asarray(self._columns.sum(axis=1)).ravel()
        for b in np.argsort(-reach, kind="stable")[:MAX_SINGLE_CANDIDATES]:
            yield np.eye(1, k, int(b)).ravel()
        for turn in range(number):
            # Three of four starts are covers: with many attributes these are the best, and random subsets alone are
            # poor.
            if turn % 4:
                here = int(self._rng.integers(0, len(self._levels), size=(1,))[0])
                then = min(here + turn % 2, len(self._levels) - 1)
                leading = int(self._rng.integers(1, MAX_MIXED_COVERS, size=(1,))[0])
                yield self._cover(self._levels[here], leading, self._levels[then])
            else:
                draw, size = (self._rng.uniform(0.0, 1.0, size=(k,)) for _ in range(2))
                yield (draw < (0.15, 0.3, 0.5, 0.8)[turn // 4 % 4]) * size


def _neighbours(weights: Floats) -> Iterator[Floats]:
    """Yield the weights with one margin left out, or one added at the median size of the others."""
    used = np.flatnonzero(weights)
    # The median: a few large margins would make an added one dominate at the mean.
    usual = float(np.median(weights[used]))
    for b in np.argsort(weights, kind="stable"):
        neighbour = weights.copy()
        neighbour[b] = 0.0 if weights[b] > 0 else usual
        if neighbour.any():
            yield neighbour


def _search(search: _WeightSearch, orders: NDArray[np.int64], rng: Generator, number: int | None) -> MarginWeights:
    number = (256 if len(orders) <= MANY_CANDIDATES else 64) if number is None else number
    objectives = search.objectives
    shapes = _Shapes(objectives[0].information, orders, rng)
    screened: list[tuple[float, Floats]] = []
    tried = 0
    for start in shapes.all(number):
        if tried and search.is_over:
            break
        tried += 1
        screened.append(search.descend(shapes.covered(start), objectives[:1], SCREENING))
    finishers = 4 if len(orders) <= MANY_CANDIDATES else 2
    ends = [search.descend(weights, objectives, STEPS) for _, weights in _drop_duplicates(screened)[:finishers]]
    for value, weights in _drop_duplicates(ends):
        search.climb(value, weights, shapes)
    return MarginWeights(
        search.weights,
        search.best,
        tried,
        MarginSearchStatus.TIME if search.is_over else MarginSearchStatus.LOCAL_OPTIMUM,
    )


def _drop_duplicates(candidates: list[tuple[float, Floats]]) -> list[tuple[float, Floats]]:
    """Return the results, the best first, without those that equal one before to a relative 10⁻⁷: probably repeats."""
    out: list[tuple[float, Floats]] = []
    for value, weights in sorted(candidates, key=lambda pair: pair[0]):
        if not out or value > out[-1][0] * (1 + 1e-7):
            out.append((value, weights))
    return out


def _checked(
    information: sp.csr_array, shares: sp.csr_array, numbers: ArrayLike
) -> tuple[sp.csr_array, sp.csr_array, Floats]:
    """Return information and shares without the sectors that no table uses, and the numbers."""
    n, u = sp.csr_array(information).astype(np.float64), sp.csr_array(shares).astype(np.float64)
    c = np.asarray(numbers, dtype=np.float64)
    if n.shape[0] != u.shape[1] or c.shape != u.shape[:1] or not c.size:
        raise WorkloadError(
            "margin-shapes-differ",
            f"The shapes of information, shares, and targets or weights are {n.shape}, {u.shape} and {c.shape}.",
            "They must be (sectors, candidates), (tables, sectors) and (tables,), with at least one table.",
            "Give arrays of these shapes.",
            "Nothing was computed.",
        )
    # A comparison with NaN is False, so each condition states what a good number is.
    entries = np.concatenate([n.data, u.data])
    if not ((c > 0) & np.isfinite(c)).all() or not ((entries >= 0) & np.isfinite(entries)).all():
        raise WorkloadError(
            "margin-weights-out-of-range",
            "A target or weight is not positive and finite, or an entry of information or shares is negative or not "
            "finite.",
            "",
            "Give positive finite targets, and finite information and shares of at least 0.",
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


def minimise_total(
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
        orders: The number of attributes of each candidate (candidates,); used to choose starts only.
        rng: The generator that chooses the random starts.
        starts: The number of random covers and subsets, in addition to the starts by order. Default: 256 up to
            MANY_CANDIDATES candidates, 64 above.
        max_seconds: The time limit in seconds, checked between iterations; one start is always tried.
        progress: The function called after every descent.

    Raises:
        WorkloadError: Shapes do not fit, or an entry of w is not positive and finite. Or an entry of N or U is negative
            or not finite, or no candidate covers some sector that a table uses.

    **Guarantees**
        * `value` is the value of `weights`, and these cover every sector that a table uses.
        * The result is never worse than any start that was tried. Without a time limit, these include the
          MAX_SINGLE_CANDIDATES single candidates that cover most, each with small weights that cover the rest.

    The function proves no bound.

    Source: see the module.
    """
    n, u, w = _checked(information, shares, weights)
    objectives = [_MarginObjective(n, u, w, None)]
    return _search(_WeightSearch(objectives, max_seconds, progress), _orders(orders, n), rng, starts)


def minimise_worst(
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
        orders: The number of attributes of each candidate (candidates,); used to choose starts only.
        rng: The generator that chooses the random starts.
        starts: The number of random covers and subsets, in addition to the starts by order. Default: 256 up to
            MANY_CANDIDATES candidates, 64 above.
        max_seconds: The time limit in seconds, checked between iterations; one start is always tried.
        progress: The function called after every descent.

    Raises:
        WorkloadError: Shapes do not fit, or a target is not positive and finite. Or an entry of N or U is negative or
            not finite, or no candidate covers some sector that a table uses.

    **Guarantees**
        * The guarantees of :func:`minimise_total` hold.

    Source: see the module.
    """
    n, u, c = _checked(information, shares, targets)
    smoothest = _MarginObjective(n, u, c, SHARPNESS[0])
    objectives = [smoothest, *(smoothest.sharper(t) for t in SHARPNESS[1:])]
    return _search(_WeightSearch(objectives, max_seconds, progress), _orders(orders, n), rng, starts)


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
