"""One weight for each class of places, and weighted sums of places: nearer the best of all mechanisms than sums alone.

**Symbols** (as in `solving/trees.py`, where r = 1 and x is the same for all places of a level).

| letter | meaning |
|---|---|
| x_g | the precision of the measurement of u_g |
| u_g | the weighted sum at g; for a leaf, the leaf itself |
| r_h | the weight of place h in the sum above it |
| γ | Var u_g from the measurements at and below g |
| f | Cov(1_g, u_g)/γ |
| ρ | Var(1_g − f u_g), which no measurement outside of g changes |
| Γ | Var u_g from all measurements |

**Statement.**

    X = Σ_g x_g u_g u_gᵀ,    u_g = Σ r_h u_h over the places h directly below g.

A record of leaf i costs y_i, from the top down y_h = x_h + r_h² y_g, so records of some places can cost less. Sums of
places with different numbers of places carry more information if the large places have smaller weights. The numbers γ,
f and ρ describe the knowledge of one place from the measurements at and below it. Γ adds the knowledge from all
measurements.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from fitnoise.kernel.arrays import Floats, Indices
from fitnoise.solving.certificates import Evidence
from fitnoise.solving.trees import LevelProblem, TreeQuotient, incomparable_level_weights


@final
@dataclass(frozen=True, eq=False)
class LevelInformation:
    """The knowledge of the weighted sums u_g of places, by class, by level from the top to the deepest one measured.

    tree: The tree by classes.
    x: The precision of the measurement of each u_g.
    r: The weight of each place in the sum above it; that of the top has no meaning.
    gamma: γ, Var u_g from the measurements at and below g.
    slope: f, the regression coefficient Cov(1_g, u_g)/γ.
    rest: ρ, Var(1_g − f u_g), which no measurement outside of g changes.
    below: Var u_g from the measurements strictly below g; the deepest level has no entry.
    total_gamma: Γ, Var u_g from all measurements.
    """

    tree: TreeQuotient
    x: tuple[Floats, ...]
    r: tuple[Floats, ...]
    gamma: tuple[Floats, ...]
    slope: tuple[Floats, ...]
    rest: tuple[Floats, ...]
    below: tuple[Floats, ...]
    total_gamma: tuple[Floats, ...]

    @classmethod
    def from_weights(cls, tree: TreeQuotient, x: Sequence[Floats], r: Sequence[Floats]) -> LevelInformation:
        """Return the knowledge for weights by class, by level.

        Raises:
            PlanError: X cannot be inverted in floating point.
        """
        deep = len(x) - 1
        gamma, slope = [1 / x[deep]], [np.ones(len(x[deep]))]
        rest, below = [np.zeros(len(x[deep]))], list[Floats]()
        for level in range(deep, 0, -1):
            part = r[level] ** 2 * gamma[0]
            c = tree.up(part, level)
            each = slope[0] / r[level]
            mean = tree.up(part * each, level) / c
            variation = part * (each - tree.down(mean, level)) ** 2
            # 1_g − f_g u_g = Σ_h (1_h − f_h u_h) + (f_h − f_g r_h) u_h, and these terms are uncorrelated.
            rest.insert(0, tree.up(rest[0] + variation, level))
            much = 1 + x[level - 1] * c
            if not (much > 0).all():  # rounding alone can do this
                raise incomparable_level_weights()
            gamma.insert(0, c / much)
            slope.insert(0, mean)
            below.insert(0, c)
        total = [gamma[0]]
        for level in range(1, deep + 1):
            part = r[level] ** 2 * gamma[level]
            fraction = part / tree.down(below[level - 1], level)
            # The variance of r u follows from that of the sum above, as V does in `TreeQuotient.variances`.
            total.append((part * (1 - fraction) + fraction**2 * tree.down(total[-1], level)) / r[level] ** 2)
        return cls(
            tree=tree,
            x=tuple(x),
            r=tuple(r),
            gamma=tuple(gamma),
            slope=tuple(slope),
            rest=tuple(rest),
            below=tuple(below),
            total_gamma=tuple(total),
        )

    @property
    def variances(self) -> list[Floats]:
        """1_gᵀ X⁻¹ 1_g of a place of each class, by level."""
        return [rest + f**2 * g for rest, f, g in zip(self.rest, self.slope, self.total_gamma, strict=True)]

    def slopes(self, w: Sequence[Floats]) -> tuple[list[Floats], list[Floats]]:
        """Return the decrease of Σ w V with the x, and with the r, of one place of each class, by level.

        It is computed by reverse accumulation, and the top has no r.

        w: The weight of the variance of a place of each class, by level.
        """
        tree, deep = self.tree, len(self.x) - 1
        rest = [np.array(a, dtype=np.float64) for a in w]
        slope = [2 * a * f * g for a, f, g in zip(w, self.slope, self.total_gamma, strict=True)]
        total_adjoint = [a * f**2 for a, f in zip(w, self.slope, strict=True)]
        parts, shares, by_r = ([np.zeros(0)] * (deep + 1) for _ in range(3))
        for level in range(deep, 0, -1):
            part = self.r[level] ** 2 * self.gamma[level]
            fraction = part / tree.down(self.below[level - 1], level)
            q = total_adjoint[level] / self.r[level] ** 2
            total_adjoint[level - 1] = total_adjoint[level - 1] + tree.up(q * fraction**2, level)
            parts[level] = q * (1 - fraction)
            shares[level] = q * (2 * fraction * tree.down(self.total_gamma[level - 1], level) - part)
            by_r[level] = -2 * total_adjoint[level] * self.total_gamma[level] / self.r[level]
        gamma_adjoint, by_x = total_adjoint[0], [np.zeros(0)] * (deep + 1)
        for level in range(1, deep + 1):
            r, c = self.r[level], tree.down(self.below[level - 1], level)
            by_x[level - 1] = gamma_adjoint * self.gamma[level - 1] ** 2
            total = gamma_adjoint / (1 + self.x[level - 1] * self.below[level - 1]) ** 2
            part = r**2 * self.gamma[level]
            fraction, each = part / c, self.slope[level] / r
            off = each - tree.down(self.slope[level - 1], level)
            mean, remaining = tree.down(slope[level - 1], level), tree.down(rest[level - 1], level)
            at_share = shares[level] + mean * each
            total = total - tree.up(at_share * fraction, level) / self.below[level - 1]
            at_part = parts[level] + remaining * off**2 + at_share / c + tree.down(total, level)
            at_each = 2 * remaining * part * off + mean * fraction
            rest[level] = rest[level] + remaining
            slope[level] = slope[level] + at_each / r
            by_r[level] = -(by_r[level] - at_each * each / r + 2 * at_part * part / r)
            gamma_adjoint = at_part * r**2
        by_x[deep] = gamma_adjoint * self.gamma[deep] ** 2
        return by_x, by_r

    @property
    def prices(self) -> list[Floats]:
        """The charge of one unit of u_g² by g and all places above, by level; at the deepest level, a record's cost."""
        y = [self.x[0]]
        for level in range(1, len(self.x)):
            y.append(self.x[level] + self.r[level] ** 2 * self.tree.down(y[-1], level))
        return y

    def loads(self, p: Floats) -> list[Floats]:
        """Return Σ p_i u_g(i)² over the deepest places i in g, for a place g of each class, by level.

        p: The weight of a place of each class of the deepest level.
        """
        out = [p]
        for level in range(len(self.x) - 1, 0, -1):
            out.insert(0, self.tree.up(self.r[level] ** 2 * out[0], level))
        return out


@final
@dataclass(frozen=True, eq=False)
class TreeWeights:
    """The weights of every merged sector, by class and level: x, and r (1 at the top)."""

    x: tuple[tuple[Floats, ...], ...]
    r: tuple[tuple[Floats, ...], ...]

    @classmethod
    def independent(cls, problem: LevelProblem, cells: Floats) -> TreeWeights:
        """Return the information of noise of target variance on all numbers; cells: n_S of each table."""
        out = []
        for sector in problem.sectors:
            x = [np.zeros(len(n)) for n in problem.tree.counts[: sector.deep + 1]]
            for j in sector.tables.tolist():
                level = int(problem.level[j])
                x[level] = x[level] + cells[j] / problem.class_targets(j) * sector.scale
            out.append(tuple(x))
        return cls(tuple(out), tuple(tuple(np.ones(len(a)) for a in x) for x in out))

    @classmethod
    def equal_within_levels(cls, weights: Sequence[Floats], problem: LevelProblem) -> TreeWeights:
        """Return the weighting with one weight for all places of a level."""
        pairs = zip(weights, problem.sectors, strict=True)
        counts = problem.tree.counts
        x = tuple(tuple(np.full(len(counts[k]), float(y[k])) for k in range(s.deep + 1)) for y, s in pairs)
        return cls(x, tuple(tuple(np.ones(len(a)) for a in levels) for levels in x))

    def scaled(self, factor: float) -> TreeWeights:
        """Return the weights with all information multiplied by this factor."""
        return TreeWeights(tuple(tuple(a * factor for a in x) for x in self.x), self.r)

    @property
    def vector(self) -> Floats:
        """The logarithms of all weights, and of all r below the top."""
        # In logarithms no bound is needed for positive weights, and steps are relative, over many orders of magnitude.
        return np.asarray(np.log(np.concatenate(self._arrays)))

    def from_vector(self, vector: Floats) -> TreeWeights:
        """Return the weights of these logarithms, in the layout of this weighting."""
        parts = iter(np.split(np.exp(vector), np.cumsum([len(a) for a in self._arrays])[:-1]))
        x = tuple(tuple(next(parts) for _ in levels) for levels in self.x)
        # The r of the top has no place above, so it stays as it is.
        return TreeWeights(x, tuple((levels[0], *(next(parts) for _ in levels[1:])) for levels in self.r))

    @property
    def _arrays(self) -> list[Floats]:
        return [*(a for x in self.x for a in x), *(a for r in self.r for a in r[1:])]


@final
@dataclass(frozen=True, eq=False)
class AchievedErrors:
    """The cost and the variances of some weights.

    information: The knowledge of every sector.
    profile: The cost of a record, by class of leaves.
    variances: The variances of the numbers of each class, relative to their targets, table by table.
    """

    information: tuple[LevelInformation, ...]
    profile: Floats
    variances: tuple[Floats, ...]

    @classmethod
    def from_weights(cls, problem: LevelProblem, weights: TreeWeights) -> AchievedErrors:
        """Return the cost and the variances of these weights, summed over all sectors.

        Raises:
            PlanError: Weights differ too much in size.
        """
        tree = problem.tree
        levels = tuple(LevelInformation.from_weights(tree, x, r) for x, r in zip(weights.x, weights.r, strict=True))
        profile = np.zeros(len(tree.counts[-1]))
        variances = [np.zeros(len(tree.counts[level])) for level in problem.level]
        for sector, sector_information in zip(problem.sectors, levels, strict=True):
            y, sector_variances = sector_information.prices[-1], sector_information.variances
            for level in range(sector.deep + 1, len(tree.counts)):
                y = tree.down(y, level)
            profile += sector.weight * y
            for j in sector.tables.tolist():
                variances[j] += sector.weight * sector_variances[int(problem.level[j])] / problem.class_targets(j)
        return cls(levels, profile, tuple(variances))

    @property
    def worst(self) -> float:
        """The largest variance over its target."""
        return max(float(v.max()) for v in self.variances)

    @property
    def cost(self) -> float:
        """Δ² where all information is scaled so that the worst number just meets its target."""
        return float(self.profile.max()) * self.worst


STEPS, FEW_CLASSES = 40, 2000
"""The steps of the fixed point for each level of the tree; each norm after it takes three fifths of them. Up to
FEW_CLASSES of places in all sectors, the steps are four times as many."""

MAX_CLASS_STEPS = 12_000_000
"""The largest number of classes of places in all sectors times steps: they take some ten seconds."""

LOOK, MIN_GAIN_PER_LOOK = 10, 1e-4
"""With more than FEW_CLASSES numbers x and r, the number of steps between two evaluations. And the smallest relative
gain between two evaluations with which the search goes on."""

NORMS = (500.0, 3000.0, 20_000.0)
"""The norms of costs and of relative variances that replace the largest of each."""

_MIXED, _FLOOR, _MIN_WEIGHT, _GROWTH_FACTOR, _LOG_STEP, _FAINT = 1e-2, 0.1, 1e-4, 10.0, 0.25, 1e-7
"""Constants of the fixed point, in this order:

* the share of even weights in the weights that prove the bound;
* the share of even weights below which a subtree's weights do not fade together;
* the smallest weight of a number, as a share of that;
* the factor by which faint weights of violated numbers grow faster;
* the step size of log r;
* the smallest weight of a sum, as a share of its information from all measurements.

Slopes go with the square of 1/x, the variance of the sum from its own measurement. Below the root of the precision of
doubles, only rounding would remain of them."""


def solve(
    problem: LevelProblem, evidence: Evidence, start: TreeWeights, *, gap: float = 0.0, bound: float = 0.0
) -> TreeWeights:
    """Return weights of classes and r, from a start and dual weights, scaled so the worst number just meets its target.

    First the search iterates a fixed point: x ← x (slope/load)^½, and an analogous step for r. Costs and variances
    above their mean gain dual weight, and others lose it. Then it minimises norms of both, which approach the largest
    of each. The function keeps the best weights, the start among them. It ends early within a gap of a bound.
    """
    size = sum(len(a) for x in start.x for a in x)
    steps = (STEPS if size > FEW_CLASSES else 4 * STEPS) * len(problem.tree.above)
    steps = min(steps, max(10, MAX_CLASS_STEPS // size))
    errors = AchievedErrors.from_weights(problem, start)
    best = start.scaled(errors.worst), errors.cost
    lowest = min(float(a[a > 0].min()) for x in start.x for a in x if (a > 0).any())
    # The fixed point multiplies x, so that a weight of 0 would stay 0.
    begun = TreeWeights(tuple(tuple(np.maximum(a, 1e-3 * lowest) for a in x) for x in start.x), start.r)
    enough = bound * (1 + gap)
    current, cost = _balanced(problem, evidence, begun, steps, enough)
    best = min(best, (current, cost), key=lambda x: x[1])
    # The next search is over logarithms.
    current = TreeWeights(tuple(tuple(np.maximum(a, 1e-6 * lowest) for a in x) for x in current.x), current.r)
    return _sharpened(problem, current, best, int(0.6 * steps), enough)


def polished(problem: LevelProblem, weights: TreeWeights) -> TreeWeights:
    """Return weights with the same r that are better, or the given ones if the search finds none.

    They are scaled so that the worst number just meets its target.
    """
    errors, size = AchievedErrors.from_weights(problem, weights), sum(len(a) for x in weights.x for a in x)
    lowest = min(float(a[a > 0].min()) for x in weights.x for a in x if (a > 0).any())
    begun = TreeWeights(tuple(tuple(np.maximum(a, 1e-6 * lowest) for a in x) for x in weights.x), weights.r)
    steps = min(STEPS, max(10, MAX_CLASS_STEPS // size))
    return _sharpened(problem, begun, (weights.scaled(errors.worst), errors.cost), steps, 0.0, still=True)


def _sharpened(
    problem: LevelProblem,
    current: TreeWeights,
    best: tuple[TreeWeights, float],
    steps: int,
    enough: float,
    *,
    still: bool = False,
) -> TreeWeights:
    """Return the best weights met while minimising sharper and sharper norms. With `still`, r stays as it is."""
    import scipy.optimize as so  # takes as long as a small plan

    def record(vector: Floats) -> float:
        nonlocal best
        candidate = current.from_vector(vector)
        errors = AchievedErrors.from_weights(problem, candidate)
        best = min(best, (candidate.scaled(errors.worst), errors.cost), key=lambda x: x[1])
        return errors.cost

    count, last = 0, np.inf

    def looked(xk: Floats) -> None:
        nonlocal count, last
        count += 1
        if many and count % LOOK == 0:
            before, last = last, record(xk)
            if best[1] <= enough or before * (1 - MIN_GAIN_PER_LOOK) < last <= before:
                raise StopIteration

    many = len(current.vector) > FEW_CLASSES
    for norm in NORMS[-1:] if many and still else NORMS:
        if best[1] <= enough:
            break
        # Each norm is another function, so its first value is not compared with the last one of the norm before.
        count, last = 0, np.inf
        result = so.minimize(
            _smoothed, current.vector, args=(problem, current, norm, still), jac=True, method="L-BFGS-B",
            options={"maxiter": steps, "maxcor": 20}, callback=looked,
        )  # fmt: skip
        record(result.x)
        current = current.from_vector(result.x)
    return best[0]


def _own_weights(problem: LevelProblem, deep: int, tables: Indices, q: Sequence[Floats]) -> list[Floats]:
    """Return the weights of a place's numbers over their targets, of some tables, by level."""
    w = [np.zeros(len(n)) for n in problem.tree.counts[: deep + 1]]
    for j in tables.tolist():
        level = int(problem.level[j])
        w[level] = w[level] + q[j] / problem.class_targets(j)
    return w


def _smoothed(
    vector: Floats, problem: LevelProblem, like: TreeWeights, norm: float, still: bool
) -> tuple[float, Floats]:
    """Return the log of the norms of costs and of variances, and its slope."""
    tree, counts = problem.tree, problem.tree.counts
    errors = AchievedErrors.from_weights(problem, like.from_vector(vector))
    max_cost, worst = float(errors.profile.max()), errors.worst
    # Relative to the largest: powers of 20,000 of the costs themselves would overflow or vanish.
    p = (errors.profile / max_cost) ** (norm - 1)
    q = [(v / worst) ** (norm - 1) for v in errors.variances]
    costs = float(p @ (errors.profile / max_cost))
    misses = sum(float(a @ (v / worst)) for a, v in zip(q, errors.variances, strict=True))
    value = np.log(max_cost) + np.log(worst) + (np.log(costs) + np.log(misses)) / norm
    p = p / (max_cost * costs)
    q = [a / (worst * misses) / counts[level] for a, level in zip(q, problem.level, strict=True)]
    by_x, by_r = [], []
    mass = [p]
    for level in range(len(counts) - 1, 0, -1):
        # Here p is that of a complete class, so classes are summed without their copies.
        mass.insert(0, np.add.reduceat(mass[0], np.flatnonzero(np.diff(tree.above[level - 1], prepend=-1))))
    for sector, information in zip(problem.sectors, errors.information, strict=True):
        deep, n = sector.deep, counts[: sector.deep + 1]
        load, y = information.loads(mass[deep] / n[deep]), information.prices
        less, turned = information.slopes(_own_weights(problem, deep, sector.tables, q))
        by_x += [sector.weight * n[k] * information.x[k] * (load[k] - less[k]) for k in range(deep + 1)]
        for k in range(1, deep + 1):
            cost_slope = 2 * load[k] * information.r[k] * tree.down(y[k - 1], k)
            by_r.append(0 * n[k] if still else sector.weight * n[k] * information.r[k] * (cost_slope - turned[k]))
    return float(value), np.concatenate(by_x + by_r)


def _masses(tree: TreeQuotient, p: Floats) -> list[Floats]:
    """Return the sums of weights of the leaves in a place of each class, by level."""
    out = [p]
    for level in range(len(tree.counts) - 1, 0, -1):
        out.insert(0, tree.up(out[0], level))
    return out


def _balanced(
    problem: LevelProblem, evidence: Evidence, weights: TreeWeights, steps: int, enough: float
) -> tuple[TreeWeights, float]:
    """Return the best weights on the way to a fixed point of weights, costs and variances, and their cost.

    The search takes at most `steps` steps, and ends at a cost of `enough` or less.
    """
    tree, counts, levels = problem.tree, problem.tree.counts, problem.level.tolist()
    uniform = problem.start
    masses = _masses(tree, uniform.cells / counts[-1])
    # A dual weight of 0 would stay 0.
    p = ((1 - _MIXED) * evidence.cells / evidence.cells.sum() + _MIXED * uniform.cells) / counts[-1]
    shares = (1 - _MIXED) * evidence.numbers / evidence.numbers.sum() + _MIXED * uniform.numbers
    q = [a / counts[level] for level, a in zip(levels, problem.split(shares), strict=True)]
    best = weights, np.inf
    for _ in range(steps):
        mass = _masses(tree, p)
        weights = _take_step(problem, weights, mass, q)
        errors = AchievedErrors.from_weights(problem, weights)
        # The cost need not fall from step to step, so the best weights are kept on the way.
        best = min(best, (weights.scaled(errors.worst), errors.cost), key=lambda x: x[1])
        if best[1] <= enough:
            break
        spent = float((counts[-1] * p) @ errors.profile)
        missed = sum(float((counts[k] * a) @ v) for k, a, v in zip(levels, q, errors.variances, strict=True))
        sums, costs = [np.zeros(len(n)) for n in counts], [np.zeros(len(n)) for n in counts]
        for k, a, v in zip(levels, q, errors.variances, strict=True):
            sums[k], costs[k] = sums[k] + a, costs[k] + a * v
        for k in range(len(counts) - 1, 0, -1):
            sums[k - 1], costs[k - 1] = sums[k - 1] + tree.up(sums[k], k), costs[k - 1] + tree.up(costs[k], k)
        # Where all costs and variances of a subtree are below their limits, its dual weights fade together. Its best
        # weights depend on their ratio alone, so the search holds them at a tenth of an even share.
        held = []
        for m, n, e, a, b in zip(mass, _masses(tree, p * errors.profile), masses, sums, costs, strict=True):
            room = np.log(np.where(a > 0, b / np.maximum(a, 1e-300) / missed, 1.0) * n / m / spent)
            held.append(np.where((m < _FLOOR * e) & (room < 0), -0.5 * room, 0.0))
        p = p * np.exp(0.5 * (np.log(errors.profile / spent) + held[-1]))
        p = p / (counts[-1] @ p)
        for j, (k, v) in enumerate(zip(levels, errors.variances, strict=True)):
            distance, minima = np.log(v / missed), np.maximum(_FLOOR * masses[k] / len(q), 1e-12)
            push = distance * np.where((distance > 0) & (q[j] < minima), _GROWTH_FACTOR, 1.0) + held[k]
            q[j] = np.maximum(q[j], _MIN_WEIGHT * minima) * np.exp(np.clip(0.5 * push, -1, 1))
        total = sum(float(counts[k] @ a) for k, a in zip(levels, q, strict=True))
        q = [a / total for a in q]
    return best


def _take_step(problem: LevelProblem, weights: TreeWeights, mass: Sequence[Floats], q: Sequence[Floats]) -> TreeWeights:
    """Take one step towards the best weights at some dual weights; the mean of r² below a place stays 1, by load."""
    tree, xs, rs = problem.tree, [], []
    for sector, x, r in zip(problem.sectors, weights.x, weights.r, strict=True):
        information, w = LevelInformation.from_weights(tree, x, r), _own_weights(problem, sector.deep, sector.tables, q)
        less, turned = information.slopes(w)
        load, y = information.loads(mass[sector.deep]), information.prices
        # At the best x the slope of costs equals that of variances, load = less: this step multiplies x by the root of
        # their ratio.
        new = [
            np.maximum(a * np.sqrt(np.maximum(d, 0.0) / m), _FAINT / variance)
            for a, d, m, variance in zip(x, less, load, information.total_gamma, strict=True)
        ]
        turn, above = [r[0]], w[0]
        for k in range(1, sector.deep + 1):
            cost_slope, above = 2 * load[k] * r[k] ** 2 * tree.down(y[k - 1], k), tree.down(above, k)
            stiff = cost_slope + 2 * above * information.gamma[k] * r[k] ** 2
            step = _LOG_STEP * (turned[k] * r[k] - cost_slope) / np.maximum(stiff, 1e-300)
            turn.append(r[k] * np.exp(np.clip(step, -0.3, 0.3)))
            above = w[k] + above
        for k in range(sector.deep, 0, -1):
            mean = np.sqrt(tree.up(load[k] * turn[k] ** 2, k) / tree.up(load[k], k))
            turn[k] = turn[k] / tree.down(mean, k)
            new[k - 1] = new[k - 1] * mean**2
            turn[k - 1] = turn[k - 1] * mean if k > 1 else turn[k - 1]
        xs.append(tuple(new))
        rs.append(tuple(turn))
    return TreeWeights(tuple(xs), tuple(rs))
