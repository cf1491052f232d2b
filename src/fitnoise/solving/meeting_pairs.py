"""A bound for replaced records of any tree of places: pairs of records by the place where they meet.

**Symbols** (those of `solving/trees.py`, and these).

| letter | meaning |
|---|---|
| g, h, k | places; h and k are right below g |
| a pair meets at g | its records lie in different places h, k right below g |
| μ_g | the probability that a pair meets at g |
| s_h | the weight of h among the places right below g; S_g is the sum of the s_h |
| b_g | the distribution of a record of g over the leaves of g: p, divided by its sum in g |
| χ_g | in sector T, the mean of χ_T(D) over the pairs that meet at g, by the attributes D in which they differ |
| m_h | the probability that exactly one record of a pair lies in h |
| C | the mean of (e − e')(e − e')ᵀ in sector T |
| t, N | a number above 0, and N = (I + C A/t)⁻¹ |

**Statement.** No mean of (e − e')ᵀ X (e − e') over pairs exceeds Δ², so

    Δ² ≥ ν² = (Σ M tr (C^½ A C^½)^½)²

for every law of pairs, as in `solving/trees.py` for C = diag p. A pair meets at g with probability μ_g. Its records lie
in h and k with probability proportional to s_h s_k, and on leaves drawn from b_h and b_k independently. Or both records
lie on one leaf, drawn from p, and differ in attributes D. With the s_h of each place scaled so that Σ_{h≠k} s_h s_k =
2 μ_g,

    C = diag d − Σ_g χ_g Σ_{h≠k} s_h s_k b_h b_kᵀ.

Here d_i is the probability that i is the leaf of one of the two records. For pairs on one leaf it has 2 (1 − χ_T(D))
times their probability instead. In the sector of no attributes every χ is 1. Pairs on one leaf cost nothing there, and
neither does the total, which all records have in common. So A needs no weight at the top.

**One pass.** As π √z = ½ ∫ e^{u/2} log(1 + z e^{−u}) du,

    tr (C^½ A C^½)^½ = (1/2π) ∫ e^{u/2} log det(I + C A e^{−u}) du.

For each place the pass keeps α = 1ᵀNC1, γ = 1ᵀNb and δ = bᵀANb of the leaves in it, and the logarithm of the
determinant. Below, a sum of C or of A is of these leaves alone.

* A place of the deepest level starts with A = 0: α is the sum of C, γ = 1 and δ = 0.
* Adding w 11ᵀ to A: with f = 1 + wα/t, log det gains log f. α/f, γ/f and δ + wγ²/f take the place of α, γ, δ.
* Adding ρ bbᵀ to C: with f = 1 + ρδ/t, log det gains log f, and α + ργ²/f, γ/f, δ/f take their place.
* Places become one place: their α and their log det are summed. Let v = Σ s_h b_h, and let b = Σ β_h b_h with
  β_h the share of p in g that h has. Then 1ᵀNv, 1ᵀNb, vᵀANv, vᵀANb and bᵀANb are sums over h.
* Adding −χ vvᵀ to C: with f = 1 − χ vᵀANv/t, log det gains log f. α − χ(1ᵀNv)²/f, γ + (χ/t) 1ᵀNv · vᵀANb/f and
  δ + (χ/t)(vᵀANb)²/f take their place.

Each is a change of rank one, and follows from the formula of Sherman and Morrison. For a place g, the pass adds χ_g
s_h² b_h b_hᵀ for every h, joins them, and adds −χ_g vvᵀ. Together that is −χ_g Σ_{h≠k} s_h s_k b_h b_kᵀ. Then it adds
the weight of g.

**No f is 0.** Let R be the part of C within h, without pairs that meet at g. Pairs that meet at g add s_h (S − s_h)
diag b_h to it. This is at least s_h (S − s_h) b_h b_hᵀ, and the rest of R is a mean of squares. So δ/t ≤ bᵀR⁻¹b ≤
1/(s_h (S − s_h)).

* For χ < 0, the f of h is at least 1 − |χ| s_h/(S − s_h). So weights are read with s_h at most `LARGEST_SHARE` · S/(1 +
  |χ|), for the largest |χ| of the negative χ of all sectors. Each level has a share `MIXED` of pairs that differ
  independently, so this is more than S/2, and is possible in a place of two.
* For χ > 0, put x_h = s_h² δ/t ≤ s_h/(S − s_h). As S − (1 − χ) s_h ≥ χS, χ vᵀANv/t = Σ χ x_h/(1 + χ x_h) is at most Σ
  χ s_h/(S − (1 − χ) s_h) ≤ Σ s_h/S = 1.

In the sector of no attributes the last f goes to 0 with t. There, C1 within h is m_h b_h, so 1 − γ = m_h δ/t and α =
m_h γ. With m_h = s_h (S − s_h) + m_g β_h,

    f = Σ s_h/S − Σ x_h/(1 + x_h) = Σ (s_h/S) (s_h (S − s_h) γ + m_g β_h)/(m_h + s_h² (1 − γ)),

a sum of terms that are not negative, in which nothing cancels. At other sectors, a term of the sum over t with an f
below `SMALLEST_FACTOR` is left out.

**The sum over t.** The integral is replaced by the sum over steps h, divided by 1 + 2 Σ 1/cosh(2π²k/h). By Poisson
summation the result is no larger. For the kernel e^{u/2} log(1 + e^{−u}) has the Fourier transform π/((½ + iω) cosh
πω). Its size is at most 2π/cosh πω. All terms are positive, so terms left out only lower it. For every z and c ≥ 1,
log(1 + z/c) ≥ log(1 + z)/c and log(1 + cz) ≥ log(1 + z). So each term beyond an end exceeds the one before times
e^{−h/2}. The first and the last term take over a geometric series, as in `solving/trees.py`.

**Trust.** The bound holds for all weights; `bound` computes it from the plan without a search. `ascend` searches.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from fitnoise.kernel.arrays import Floats
from fitnoise.solving.certificates import Evidence
from fitnoise.solving.trees import (
    MIN_DUAL_SHARE,
    NUMBERS_PER_BATCH,
    ROUNDING_ALLOWANCE,
    LevelProblem,
    MergedSectors,
    TreeQuotient,
    incomparable_dual_weights,
    neighbour_weights_unusable,
    tree_weights_unusable,
)

ROUGH, FINE = (2.0, 8.0), (1.0, 28.0)
"""The pairs (h, margin) of the sum over t, as in `solving/trees.py`: for the search, and for the bound. Above the
possible eigenvalues, the terms fall so evenly that half of the margin is enough."""

MIXED, LARGEST_SHARE, SMALLEST_FACTOR = 1e-3, 1 - 1e-4, 1e-4
"""The share of pairs of each level that differ independently; see the module head for the other two."""

ROUNDS, STEPS, WORK = 3, 50, 6_000_000
"""The rounds of the search, the steps of each, and the largest product of classes of places, over all sectors, and
steps of all rounds: some ten seconds. Each round has at least 5 steps."""

FEW_CLASSES = 200
"""The number of classes of places, over all sectors, up to which rounds have four times as many steps."""

SMALLEST = 1e-60
"""The smallest weight that the search writes, as a share of the largest of its kind."""

SMALLEST_PAIRS = 1e-6
"""The least weight, at the start of the search, of pairs that meet at a level, and of a kind of pairs there."""

MIN_SCALED_MASS, LARGEST_STEP = 1e-8, 2.0
"""The least mass by whose root a logarithm is scaled in the search, and the largest change of a logarithm in one
round."""


@final
@dataclass(frozen=True, eq=False)
class PairLaw:
    """A law of pairs of records, for one place of each class.

    b: By level below the top, β of a place; the top has an empty array.
    s: By level below the top, the scaled s of a place.
    total: By level above the deepest, S.
    crossing: By level, m; 0 at the top.
    mass: By level, the sum of p in a place.
    meeting: By level above the deepest, μ.
    kinds: By level above the deepest, the shares of the kinds of pairs, (L, K).
    one_leaf: The probabilities of the kinds of pairs on one leaf, (K,).
    """

    b: list[Floats]
    s: list[Floats]
    total: list[Floats]
    crossing: list[Floats]
    mass: list[Floats]
    meeting: list[Floats]
    kinds: Floats
    one_leaf: Floats


def agreements(problem: LevelProblem) -> Floats:
    """Return χ_T of each merged sector and kind of pairs, (T, K).

    The kinds are: values drawn independently; values that all agree; and each set D of `trees.LevelProblem`.
    """
    rows = ([float(x.is_total), 1.0, *(1 - x.neighbour_costs[1:] / 2)] for x in problem.sectors)
    return np.array(list(rows))


def start(problem: LevelProblem) -> Evidence:
    """Return weights of every needed shape: pairs that mostly meet at the top, in each of its places equally."""
    counts, deep = problem.tree.counts, len(problem.tree.above)
    places = np.concatenate([np.zeros(0), *(np.ones(len(n)) for n in counts[1:])])
    meetings = np.concatenate([places, *(n / n.sum() for n in counts[:-1])])
    kinds = np.ones((deep + 1, len(problem.sectors[0].neighbour_costs) + 1))
    kinds *= np.array([1.0, *[0.02] * (deep - 1), 0.02][: deep + 1])[:, None]
    shares = np.ones(len(counts[0]))
    for level in range(1, deep + 1):
        children = problem.tree.up(np.ones(len(counts[level])), level)
        shares = problem.tree.down(shares / children, level)
    cells = shares * counts[-1]
    return Evidence(cells / cells.sum(), problem.start.numbers, kinds=kinds.ravel(), meetings=meetings)


def _by_level(tree: TreeQuotient, values: Floats, deep: int) -> list[Floats]:
    """Return the sums of the values of places of a level, by level from the top down to it."""
    sums = [values]
    for level in range(deep, 0, -1):
        sums.insert(0, tree.up(sums[0], level))
    return sums


def independent(problem: LevelProblem, unrelated: Evidence) -> Evidence:
    """Return the weights of pairs whose places are drawn independently.

    unrelated: Weights of leaves, of numbers and of the kinds of neighbours (`trees.bound`).
    """
    tree, counts, deep = problem.tree, problem.tree.counts, len(problem.tree.above)
    mass = _by_level(tree, unrelated.cells / unrelated.cells.sum() / counts[-1], deep)
    # Two independent records lie in one place, and in different places right below it.
    meets = [
        counts[x] * np.maximum(mass[x] ** 2 - tree.up(mass[x + 1] ** 2, x + 1), SMALLEST_PAIRS) for x in range(deep)
    ]
    stated = np.ones(len(problem.sectors[0].neighbour_costs)) if unrelated.kinds is None else unrelated.kinds
    stated = stated / stated.sum()
    kinds = np.full((deep + 1, len(stated) + 1), SMALLEST_PAIRS)
    kinds[:-1, 0] = np.maximum(stated[0] * np.array([x.sum() for x in meets]), SMALLEST_PAIRS)
    kinds[-1, 2:] = np.maximum(stated[1:], SMALLEST_PAIRS)
    meetings = np.concatenate([np.zeros(0), *mass[1:], *meets])
    return Evidence(unrelated.cells, unrelated.numbers, kinds=kinds.ravel(), meetings=meetings)


def check(problem: LevelProblem, evidence: Evidence) -> None:
    """Raise PlanError for weights that prove nothing."""
    *stated, kinds = _parts(evidence)
    *needed, needed_kinds = _parts(start(problem))
    for name, weights, like in zip(("p", "q", "of meetings"), stated, needed, strict=True):
        if not _usable(weights, like) or evidence.pairs is not None:
            raise tree_weights_unusable(name, len(like))
    if not _usable(kinds, needed_kinds):
        raise neighbour_weights_unusable()


def _usable(stated: Floats, like: Floats) -> bool:
    with np.errstate(over="ignore"):
        total = stated.sum()
    return stated.shape == like.shape and math.isfinite(total) and bool((stated > MIN_DUAL_SHARE * total).all())


def _split(problem: LevelProblem, meetings: Floats) -> tuple[list[Floats], list[Floats]]:
    """Return s by level below the top, after an empty array, and the weights of classes by level above the deepest."""
    sizes = [len(n) for n in problem.tree.counts]
    parts = np.split(meetings, np.cumsum([*sizes[1:], *sizes[:-1]])[:-1])
    return [np.zeros(0), *parts[: len(sizes) - 1]], parts[len(sizes) - 1 :]


@final
class _Reading:
    """The law of pairs that weights state, and the derivatives of a function of the law by the logarithms of weights.

    The law is what is left of the weights where no pair is possible. Places of one child have no pairs that meet there,
    and without attributes no pair on one leaf differs.
    """

    def __init__(self, problem: LevelProblem, evidence: Evidence, chi: Floats) -> None:
        tree, counts = problem.tree, problem.tree.counts
        deep = len(tree.above)
        self.tree, self.deep = tree, deep
        cells, _, meetings, all_kinds = _parts(evidence)
        s, meets = _split(problem, meetings / meetings.sum())
        self.several = [tree.up(np.ones(len(counts[x + 1])), x + 1) > 1.5 for x in range(deep)]
        rows = [bool(x.any()) for x in self.several]
        kinds = all_kinds.reshape(deep + 1, -1)
        kinds = kinds * np.array([*rows, kinds.shape[1] > 2])[:, None]
        self.kinds = kinds / kinds.sum()
        self.row_shares = self.kinds.sum(axis=1)
        mixed = np.zeros(kinds.shape[1])
        mixed[0] = MIXED
        of_rows = self.kinds[:-1] / np.where(self.row_shares[:-1] > 0, self.row_shares[:-1], 1.0)[:, None]
        shares = (1 - MIXED) * of_rows + mixed
        mass = _by_level(tree, cells / cells.sum() / counts[-1], deep)
        b = [np.zeros(0), *(mass[x] / tree.down(mass[x - 1], x) for x in range(1, deep + 1))]
        # The most negative χ of any sector at each level limits the largest s of a place.
        negative = np.maximum(-(shares @ chi.T).min(axis=1, initial=0.0), 0.0) if deep else np.zeros(0)
        self.meets = [np.where(x, m, 0.0) for x, m in zip(self.several, meets, strict=True)]
        meeting, scaled, total = [], [np.zeros(0)], []
        self.raw, self.norm, self.room = [np.zeros(0)], list[Floats](), list[Floats]()
        self.cut, self.ratio = [np.zeros(0, dtype=bool)], list[float]()
        for level in range(1, deep + 1):
            here, several = s[level], self.several[level - 1]
            limit = LARGEST_SHARE / (1 + float(negative[level - 1]))
            rest = np.maximum(tree.down(tree.up(here, level), level) - here, 0.0)
            # Only the largest place can have more than half.
            room_left = limit / (1 - limit) * rest
            has_others = tree.down(np.where(several, 1.0, 0.0), level) > 0
            cut = (here > room_left) & has_others & (tree.copies[level - 1] < 1.5)
            here = np.where(cut, room_left, here)
            self.ratio.append(limit / (1 - limit))
            self.cut.append(cut)
            mu = self.meets[level - 1]
            mu = self.row_shares[level - 1] * mu / max(mu.sum(), 1e-300) / counts[level - 1]
            meeting.append(mu)
            # Σ_{h≠k} s_h s_k, summed without cancelling.
            sums = tree.up(here, level)
            room = tree.up(here * (tree.down(sums, level) - here), level)
            # Where no pair is possible for doubles, none meets: what is left is still a law.
            possible = several & (room > 0)
            norm = np.where(possible, np.sqrt(2 * mu / np.where(possible, room, 1.0)), 0.0)
            self.raw.append(here)
            self.room.append(np.where(possible, room, 1.0))
            self.norm.append(norm)
            scaled.append(here * tree.down(norm, level))
            total.append(sums * norm)
        crossing = [np.zeros(1)]
        for level in range(1, deep + 1):
            pairs = scaled[level] * (tree.down(total[level - 1], level) - scaled[level])
            crossing.append(pairs + b[level] * tree.down(crossing[-1], level))
        self.law = PairLaw(
            b=b,
            s=scaled,
            total=total,
            crossing=crossing,
            mass=mass,
            meeting=meeting,
            kinds=shares,
            one_leaf=self.kinds[-1],
        )

    def pull_back(self, adjoint: _LawSlopes, counts: Sequence[Floats]) -> tuple[Floats, Floats, Floats]:
        """Return the derivatives by the logarithms of the weights of leaves, of meetings and of kinds."""
        tree, law, deep = self.tree, self.law, self.deep
        by_s, by_b, by_crossing = adjoint.s, adjoint.b, adjoint.crossing
        by_meeting, by_mass = adjoint.meeting, adjoint.mass
        out_s, out_mu = [np.zeros(0)] * (deep + 1), [np.zeros(0)] * deep
        rows = np.zeros(deep + 1)
        for level in range(deep, 0, -1):
            up = by_crossing[level]
            total, below = tree.down(law.total[level - 1], level), tree.down(law.crossing[level - 1], level)
            by_b[level] = by_b[level] + up * below
            by_crossing[level - 1] = by_crossing[level - 1] + _gathered(tree, up * law.b[level], level)
            by_total = _gathered(tree, up * law.s[level], level)
            by_s[level] = by_s[level] + up * (total - 2 * law.s[level])
            by_s[level] = by_s[level] + tree.copies[level - 1] * tree.down(by_total, level)
            raw, norm = self.raw[level], self.norm[level - 1]
            by_norm = _gathered(tree, by_s[level] * raw, level)
            # norm² = 2 μ/(S² − Σ s²), of the s before they are scaled.
            by_room = -0.5 * by_norm * norm / self.room[level - 1]
            inner = by_s[level] * tree.down(norm, level)
            outer = tree.down(tree.up(raw, level), level) - raw
            inner = inner + 2 * tree.copies[level - 1] * tree.down(by_room, level) * outer
            cut = self.cut[level]
            shifted = np.where(cut, inner * self.ratio[level - 1], 0.0)
            inner = np.where(cut, 0.0, inner) + np.where(
                cut, 0.0, tree.copies[level - 1] * tree.down(_gathered(tree, shifted, level), level)
            )
            out_s[level] = inner * raw
            mu = law.meeting[level - 1]
            by_log = np.where(mu > 0, by_meeting[level - 1] * mu + 0.5 * by_norm * norm, 0.0)
            rows[level - 1] = by_log.sum()
            fractions = self.meets[level - 1] / max(self.meets[level - 1].sum(), 1e-300)
            out_mu[level - 1] = by_log - fractions * by_log.sum()
        # β is a ratio of masses, so masses of a level have derivatives from both sides.
        for level in range(deep, 0, -1):
            above = tree.down(law.mass[level - 1], level)
            by_mass[level] = by_mass[level] + by_b[level] / above
            by_mass[level - 1] = by_mass[level - 1] - _gathered(tree, by_b[level] * law.b[level] / above, level)
        for level in range(1, deep + 1):
            by_mass[level] = by_mass[level] + tree.copies[level - 1] * tree.down(by_mass[level - 1], level)
        by_p = by_mass[deep] * law.mass[deep]
        fractions = counts[deep] * law.mass[deep]
        out_p = by_p - fractions * by_p.sum()
        # The share of a row multiplies the μ of its level; the shares within it are those of the kinds.
        by_kinds = np.zeros_like(self.kinds)
        of_rows = np.where(self.row_shares[:-1] > 0, self.row_shares[:-1], 1.0)[:, None]
        row_fractions = self.kinds[:-1] / of_rows
        pull = (1 - MIXED) * adjoint.kinds
        by_kinds[:-1] = row_fractions * (rows[:-1, None] + pull - (pull * row_fractions).sum(axis=1, keepdims=True))
        by_kinds[-1] = self.kinds[-1] * adjoint.one_leaf
        by_kinds = by_kinds - self.kinds * by_kinds.sum()
        return out_p, np.concatenate([*out_s[1:], *out_mu]), by_kinds.ravel()


@final
class _LawSlopes:
    """Derivatives of ν by the fields of a law, by class of places, each with all its copies."""

    def __init__(self, law: PairLaw, counts: Sequence[Floats]) -> None:
        self.s = [np.zeros_like(x) for x in law.s]
        self.b = [np.zeros_like(x) for x in law.b]
        self.crossing = [np.zeros_like(x) for x in law.crossing]
        self.meeting = [np.zeros_like(x) for x in law.meeting]
        self.mass = [np.zeros_like(x) for x in law.mass]
        self.kinds = np.zeros_like(law.kinds)
        self.one_leaf = np.zeros_like(law.one_leaf)
        self.weights = [np.zeros(len(n)) for n in counts]


def _gathered(tree: TreeQuotient, values: Floats, level: int) -> Floats:
    """Return the sums over the classes in each class above, without their copies."""
    return tree.up(values / tree.copies[level - 1], level)


def bound(problem: LevelProblem, evidence: Evidence) -> float:
    """Return the bound that the evidence proves: no mechanism of its kind that meets the targets has a smaller Δ².

    Args:
        problem: The tables by levels of a tree, for replaced records.
        evidence: `cells` has p of the classes of leaves, and `numbers` q of the classes of numbers, table by table. The
            weight of a class is shared evenly among its members. `meetings` has s of a place of each class, by level
            below the top. After these it has a weight of each class by level above the deepest. This is the share of
            its places in the pairs that meet at the level. `kinds` has a row for each of these levels, and one for
            pairs on one leaf, with the weight of each kind of pairs (`agreements`).

    Raises:
        PlanError: Weights are not positive, not finite, of the wrong shape, or too different in size for doubles.
    """
    check(problem, evidence)
    with np.errstate(all="ignore"):
        proven = norm(problem, evidence, FINE)[0] ** 2 * (1 - ROUNDING_ALLOWANCE)
    if not math.isfinite(proven):
        raise incomparable_dual_weights()
    return proven


def norm(
    problem: LevelProblem, evidence: Evidence, grid: tuple[float, float], *, slopes: bool = False
) -> tuple[float, tuple[Floats, Floats, Floats, Floats] | None]:
    """Return ν, rounded down, and its derivatives by the logarithms of p, q, meetings and kinds if `slopes` is set.

    grid: The step h, and the margin of the sum over t, as in `ROUGH` and `FINE`.
    """
    with np.errstate(all="ignore"):
        return _norm(problem, evidence, grid, slopes=slopes)


def _norm(
    problem: LevelProblem, evidence: Evidence, grid: tuple[float, float], *, slopes: bool
) -> tuple[float, tuple[Floats, Floats, Floats, Floats] | None]:
    counts = problem.tree.counts
    chi = agreements(problem)
    reading = _Reading(problem, evidence, chi)
    shares = problem.split(evidence.numbers / evidence.numbers.sum())
    excess = 1 + 2 * sum(1 / math.cosh(2 * math.pi**2 * k / grid[0]) for k in range(1, 9))
    nu, adjoint = 0.0, _LawSlopes(reading.law, counts)
    by_q = [np.zeros(len(x)) for x in shares]
    for sector, kinds in zip(problem.sectors, chi, strict=True):
        if sector.is_total and not sector.deep:
            continue
        w = [np.zeros(len(x)) for x in counts[: sector.deep + 1]]
        for j in sector.tables.tolist():
            level = int(problem.level[j])
            w[level] = w[level] + shares[j] / counts[level] / problem.class_targets(j)
        if sector.is_total:
            w[0] = np.zeros(1)
        adjoint.weights = [np.zeros(len(x)) for x in w]
        nu += _sector(
            problem.tree,
            reading.law,
            sector,
            chi=kinds,
            w=w,
            grid=grid,
            scale=sector.weight / excess,
            adjoint=adjoint,
            slopes=slopes,
        )
        for j in sector.tables.tolist():
            level = int(problem.level[j])
            by_q[j] += adjoint.weights[level] * shares[j] / counts[level] / problem.class_targets(j)
    nu *= 1 - ROUNDING_ALLOWANCE
    if not slopes:
        return nu, None
    numbers = np.concatenate(by_q)
    numbers = numbers - np.concatenate(shares) * numbers.sum()
    p, meetings, of_kinds = reading.pull_back(adjoint, counts)
    return nu, (p, numbers, meetings, of_kinds)


def _sector(
    tree: TreeQuotient,
    law: PairLaw,
    sector: MergedSectors,
    *,
    chi: Floats,
    w: list[Floats],
    grid: tuple[float, float],
    scale: float,
    adjoint: _LawSlopes,
    slopes: bool,
) -> float:
    """Return a sector's part of ν times the scale, and add its derivatives to `adjoint`."""
    deep, (step, margin) = sector.deep, grid
    x = law.kinds @ chi
    one_leaf = float(law.one_leaf @ (2 * (1 - chi)))
    # The sum of C over the leaves in a place of the deepest level of the sector.
    ends = law.crossing[-1] + one_leaf * law.mass[-1]
    sums = one_leaf * law.mass[-1]
    for level in range(len(tree.above), deep, -1):
        ends, sums = tree.up(ends, level), tree.up(sums, level) + 2 * (1 - x[level - 1]) * law.meeting[level - 1]
    sums = law.crossing[deep] + sums
    min_product = np.where(w[deep] * sums > 0, w[deep] * sums, np.inf).min()
    masses = _by_level(tree, ends, deep)
    path = w[0] * masses[0]
    for level in range(1, deep + 1):
        path = tree.down(path, level) + w[level] * masses[level]
    # No eigenvalue of C A is above twice the largest row sum of diag(d) A, as C ⪯ 2 diag d.
    if not 0 < min_product < math.inf or not 0 < path.max() < math.inf:
        raise incomparable_dual_weights()
    low, high = math.log(float(min_product)) - margin, math.log(2 * float(path.max())) + margin / 2
    # At multiples of the step, small changes of the weights do not move the grid, and ν changes smoothly.
    u = step * np.arange(math.floor(low / step), math.ceil(high / step) + 1)
    factors = np.exp(u / 2)
    factors[[0, -1]] /= 1 - math.exp(-step / 2)
    factors *= scale * step / (2 * math.pi)
    total = 0.0
    by_sums, by_x = np.zeros_like(sums), np.zeros(len(x))
    for batch in np.array_split(np.arange(len(u)), math.ceil(len(u) * len(sums) / NUMBERS_PER_BATCH)):
        one = _Pass(tree, law, sector.is_total, x, w, sums, np.exp(u[batch])[:, None])
        values = np.where(one.usable & (one.logarithm > 0), one.logarithm, 0.0)
        total += float(factors[batch] @ values)
        if slopes:
            one.add_slopes(factors[batch][:, None], adjoint, by_sums, by_x)
    if slopes:
        adjoint.crossing[deep] += by_sums
        up = by_sums
        for level in range(deep, len(tree.above)):
            adjoint.meeting[level] += 2 * (1 - x[level]) * up
            by_x[level] -= float(2 * law.meeting[level] @ up)
            up = tree.copies[level] * tree.down(up, level + 1)
        adjoint.mass[-1] += one_leaf * up
        adjoint.one_leaf += float(law.mass[-1] @ up) * 2 * (1 - chi)
        adjoint.kinds += by_x[:, None] * chi
    return total


@final
class _Pass:
    """One pass from the leaves to the top for some t, (T, 1), and its derivatives.

    logarithm: log det(I + C A/t) less an allowance for rounding, (T,).
    usable: False for a t at which a factor is too small for doubles, (T,).
    """

    def __init__(
        self, tree: TreeQuotient, law: PairLaw, is_total: bool, x: Floats, w: list[Floats], sums: Floats, t: Floats
    ) -> None:
        self.tree, self.law, self.is_total, self.x, self.w, self.t = tree, law, is_total, x, w, t
        deep = len(w) - 1
        counts = tree.counts
        gains, losses, usable = np.zeros(len(t)), np.zeros(len(t)), np.ones(len(t), dtype=bool)
        self.before: list[tuple[Floats, ...]] = [()] * (deep + 1)
        self.own: list[tuple[Floats, ...]] = [()] * (deep + 1)
        self.joined: list[tuple[Floats, ...]] = [()] * (deep + 1)
        alpha, gamma, delta = np.broadcast_to(sums, (len(t), len(sums))), np.ones((len(t), len(sums))), np.zeros((1, 1))

        def add_weight(level: int, alpha: Floats, gamma: Floats, delta: Floats) -> tuple[Floats, Floats, Floats]:
            f = 1 + w[level] * alpha / t
            self.own[level] = alpha, gamma, f
            np.add(gains, np.log1p(w[level] * alpha / t) @ counts[level], out=gains)
            return alpha / f, gamma / f, delta + w[level] * gamma**2 / f

        alpha, gamma, delta = add_weight(deep, alpha, gamma, delta)
        for level in range(deep, 0, -1):
            s, b, chi = law.s[level], law.b[level], float(x[level - 1])
            change = chi * s**2 * delta / t
            f = 1 + change
            self.before[level] = gamma, delta, f
            logs = np.log1p(change) @ counts[level]
            gains, losses = (gains + logs, losses) if chi >= 0 else (gains, losses - logs)
            usable &= f.min(axis=1) > SMALLEST_FACTOR
            of_h = gamma
            alpha, gamma, delta = alpha + chi * s**2 * gamma**2 / f, gamma / f, delta / f
            alpha = tree.up(alpha, level)
            v, one = tree.up(s * gamma, level), tree.up(b * gamma, level)
            vv, vb, bb = tree.up(s**2 * delta, level), tree.up(s * b * delta, level), tree.up(b**2 * delta, level)
            change = chi * vv / t
            f = 1 - change
            if is_total:
                above, total = tree.down(law.crossing[level - 1], level), tree.down(law.total[level - 1], level)
                pairs = s * (total - s)
                terms = np.where(total > 0, s / total, 0) * (pairs * of_h + above * b)
                terms = terms / (law.crossing[level] + s**2 * np.maximum(1 - of_h, 0))
                f = np.where((change < 0.5) | (law.total[level - 1] == 0), f, tree.up(terms, level))
                stable = f * (1 - ROUNDING_ALLOWANCE)
            else:
                usable &= f.min(axis=1) > SMALLEST_FACTOR
                stable = f - ROUNDING_ALLOWANCE * np.abs(change)
            rounded = np.log1p(-change - ROUNDING_ALLOWANCE * np.abs(change))
            logs = np.where(change < 0.5, rounded, np.log(np.maximum(stable, 1e-300))) @ counts[level - 1]
            gains, losses = (gains, losses - logs) if chi >= 0 else (gains + logs, losses)
            self.joined[level] = v, vv, vb, f
            if is_total and level == 1:
                break
            gamma = one + chi / t * v * vb / f
            alpha = law.crossing[level - 1] * gamma if is_total else alpha - chi * v**2 / f
            delta = bb + chi / t * vb**2 / f
            alpha, gamma, delta = add_weight(level - 1, alpha, gamma, delta)
        self.usable = usable
        self.logarithm = gains - losses - ROUNDING_ALLOWANCE * (gains + losses)

    def add_slopes(self, factors: Floats, adjoint: _LawSlopes, by_sums: Floats, by_x: Floats) -> None:
        """Add the derivatives of Σ factors · logarithm over t, (T, 1), by reverse accumulation."""
        tree, law, x, w, t = self.tree, self.law, self.x, self.w, self.t
        counts, deep = tree.counts, len(w) - 1
        factors = np.where(self.usable[:, None] & (self.logarithm > 0)[:, None], factors, 0.0)
        zero = np.zeros((len(t), 1))

        def take_weight(level: int, a: Floats, c: Floats, d: Floats) -> tuple[Floats, Floats, Floats]:
            alpha, gamma, f = self.own[level]
            by_f = counts[level] * factors / f - (a * alpha + c * gamma + d * w[level] * gamma**2) / f**2
            adjoint.weights[level] += (by_f * alpha / t + d * gamma**2 / f).sum(axis=0)
            return a / f + by_f * w[level] / t, c / f + 2 * d * w[level] * gamma / f, d

        a, c, d = zero, zero, zero
        if not self.is_total:
            a, c, d = take_weight(0, a, c, d)
        for level in range(1, deep + 1):
            v, vv, vb, f = self.joined[level]
            chi = float(x[level - 1])
            of_v, of_vb, of_f = -2 * chi * v / f * a, 0.0 * v, counts[level - 1] * factors / f
            of_f = of_f + (a * chi * v**2 - c * chi / t * v * vb - d * chi / t * vb**2) / f**2
            of_v, of_vb = of_v + c * chi / t * vb / f, of_vb + (c * v + 2 * d * vb) * chi / t / f
            by_x[level - 1] += float((-a * v**2 / f + (c * v * vb + d * vb**2) / (t * f) - of_f * vv / t).sum())
            of_vv = -of_f * chi / t
            s, b, copies = law.s[level], law.b[level], tree.copies[level - 1]
            gamma, delta, f = self.before[level]
            g, h = gamma / f, delta / f
            a, of_one, of_bb, of_v, of_vv, of_vb = (
                copies * tree.down(np.broadcast_to(y, (len(t), len(counts[level - 1]))), level)
                for y in (a, c, d, of_v, of_vv, of_vb)
            )
            adjoint.s[level] += (of_v * g + 2 * s * h * of_vv + b * h * of_vb).sum(axis=0)
            adjoint.b[level] += (of_one * g + s * h * of_vb + 2 * b * h * of_bb).sum(axis=0)
            c, d = of_v * s + of_one * b, of_vv * s**2 + of_vb * s * b + of_bb * b**2
            r = chi * s**2
            by_f = counts[level] * factors / f - (a * r * gamma**2 + c * gamma + d * delta) / f**2
            by_r = (a * gamma**2 / f + by_f * delta / t).sum(axis=0)
            adjoint.s[level] += 2 * chi * s * by_r
            by_x[level - 1] += float(by_r @ s**2)
            c, d = 2 * r * gamma / f * a + c / f, d / f + by_f * r / t
            a, c, d = take_weight(level, a, c, d)
        by_sums += a.sum(axis=0)


def ascend(problem: LevelProblem, unrelated: Evidence) -> Evidence:
    """Return weights that almost maximise the bound, or the start where a search finds none that are better.

    unrelated: The weights of the best bound by independent pairs (`trees.ascend`). The search starts from them if
        they prove more than pairs that mostly meet at the top.

    Each logarithm of a weight is scaled by the root of the mass that the weight stands for, and the scales are renewed
    every round: masses differ by many orders of magnitude, and so do the second derivatives.
    """
    import scipy.optimize as so  # takes as long as a small plan

    starts = [(norm(problem, x, ROUGH)[0], x) for x in (start(problem), independent(problem, unrelated))]
    value, best = max(starts, key=lambda x: x[0])
    classes = sum(len(x) for sector in problem.sectors for x in problem.tree.counts[: sector.deep + 1])
    steps = max(5, min((4 if classes <= FEW_CLASSES else 1) * STEPS, WORK // (ROUNDS * classes)))
    for _ in range(ROUNDS):
        begun, scales = _vector(best), 1 / np.sqrt(np.maximum(_masses(problem, best), MIN_SCALED_MASS))

        def objective(
            z: Floats, begun: Floats = begun, scales: Floats = scales, like: Evidence = best
        ) -> tuple[float, Floats]:
            nu, slopes = norm(problem, _evidence(begun + scales * z, like), ROUGH, slopes=True)
            if not (nu > 0 and slopes is not None):
                return math.inf, np.zeros(len(z))
            p, q, meetings, kinds = slopes
            return -math.log(nu), -np.concatenate([p, q, meetings, kinds]) / nu * scales

        limits = [(-LARGEST_STEP / x, LARGEST_STEP / x) for x in scales.tolist()]
        result = so.minimize(
            objective, np.zeros(len(begun)), jac=True, method="L-BFGS-B", bounds=limits,
            options={"maxiter": steps, "maxcor": 30},
        ).x  # fmt: skip
        candidate = _evidence(begun + scales * result, best)
        achieved = norm(problem, candidate, ROUGH)[0]
        if not achieved > value:
            break
        best, value = candidate, achieved
    return best


def _parts(evidence: Evidence) -> list[Floats]:
    """Return the weights of leaves, of numbers, of meetings and of kinds."""
    if evidence.meetings is None or evidence.kinds is None:
        raise neighbour_weights_unusable()
    return [evidence.cells, evidence.numbers, evidence.meetings, evidence.kinds]


def _vector(evidence: Evidence) -> Floats:
    return np.asarray(np.log(np.concatenate(_parts(evidence))))


def _evidence(vector: Floats, like: Evidence) -> Evidence:
    """Return the weights of these logarithms, each block with a largest weight of 1, and none below `SMALLEST`."""
    blocks = np.split(vector, np.cumsum([len(x) for x in _parts(like)])[:-1])
    cells, numbers, meetings, kinds = (np.maximum(np.exp(x - x.max(initial=-np.inf)), SMALLEST) for x in blocks)
    return Evidence(cells, numbers, kinds=kinds, meetings=meetings)


def _masses(problem: LevelProblem, evidence: Evidence) -> Floats:
    """Return the probability that each weight stands for, in the order of `_vector`."""
    tree = problem.tree
    law = _Reading(problem, evidence, agreements(problem))
    counts, deep = tree.counts, len(tree.above)
    pairs = [
        counts[x] * tree.down(law.law.meeting[x - 1], x) * law.raw[x] / tree.down(tree.up(law.raw[x], x), x)
        for x in range(1, deep + 1)
    ]
    meets = [counts[x] * law.law.meeting[x] for x in range(deep)]
    cells, numbers = evidence.cells / evidence.cells.sum(), evidence.numbers / evidence.numbers.sum()
    return np.concatenate([cells, numbers, *pairs, *meets, law.kinds.ravel()])
