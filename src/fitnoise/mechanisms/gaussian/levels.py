"""Tables by levels of trees whose places have different numbers of places: one noise scale for a level and margin.

Each level is measured as an attribute of its own, so the integers, their cost and their noise are those of sectors. A
record lies in one place of every level. The answers of all levels therefore carry information on the same records, and
the module combines them by least squares. `solving/trees.py` lists the letters T, U_ℓ and 1. Level ℓ has N_ℓ places,
and ξ_T is the precision of sector T from its own answers:

    X_T θ_T = Σ_ℓ ξ_Tℓ U_ℓᵀ θ̂_Tℓ + ξ_T 1 θ̂_T,     X_T = (ξ_T − Σ_ℓ ξ_Tℓ/N_ℓ) 11ᵀ + Σ_ℓ ξ_Tℓ U_ℓᵀU_ℓ.

Here θ̂_Tℓ is the estimate from sector T ∪ {ℓ} only, centred along ℓ, and 1/ξ_Tℓ is its variance. All levels then agree,
and cov θ_T = C_T ⊗ X_T⁻¹, with C_T the centring of the attributes of T. Two passes through the tree compute it.

**Trust.** This module is untrusted: a mistake here costs accuracy.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast, final

import numpy as np
import scipy.sparse as sp

from fitnoise.errors import PlanError, WorkloadError
from fitnoise.kernel.arrays import Exact, Floats, Indices
from fitnoise.kernel.designs._base import CellStructure
from fitnoise.kernel.units import Neighbours
from fitnoise.mechanisms._base import Codec, TableMechanism
from fitnoise.mechanisms.estimation import SectorIndex
from fitnoise.mechanisms.gaussian.estimate import SectorEstimation
from fitnoise.mechanisms.gaussian.mechanism import BlockErrors, GaussianDescriptions, GaussianProof, SectorCodec
from fitnoise.mechanisms.numbers import SUM_OF_ALL, TableNumbers, WeightedSums, agreement, alternating, mean_weight
from fitnoise.mechanisms.terms import target_ratios
from fitnoise.messages import Message
from fitnoise.request.publication import Goal, Publication
from fitnoise.request.workloads import attributes_by_level, levels_of_one_tree, uneven_levels
from fitnoise.solving import meeting_pairs, trees
from fitnoise.solving.certificates import Certificate
from fitnoise.solving.sectors import Decomposition, decompose
from fitnoise.solving.trees import LevelProblem, TreeQuotient
from fitnoise.solving.weighted_trees import LevelInformation

if TYPE_CHECKING:
    from fitnoise.mechanisms.tables import TablePart

MIN_MARGIN_REDUCTION = 2.0**-10
"""The share of a margin's precision by which its levels may exceed it, as rounding; in fact rounding is about 2⁻²⁰."""

NUMBERS_PER_BATCH = 2**18
"""The number of answers of a level that are estimated at once, by places and joint values of other attributes."""

MAX_DENSE_LEAVES = 2_000
"""The largest number of leaves for other goals and for cell budgets, which use one structured attribute; planning takes
hours."""


def level_obstacle(request: Publication) -> Message | None:
    """Return the reason against a plan by levels of a tree, as a clause; None if it is possible."""
    if request.objective.goal is not Goal.FIT_FOR_USE:
        return Message("report.unsuitable.goal")
    if request.cell_budgets is not None:
        return Message("report.unsuitable.cell_budgets")
    return None if uneven_levels(request.workload) else Message("report.unsuitable.levels")


def deepest_level_size(request: Publication) -> int:
    """Return the number of places of the deepest of the `uneven_levels`; 0 if there are none."""
    levels = uneven_levels(request.workload)
    return request.workload.domain.sizes[levels[-1]] if levels else 0


def refuse_endless(request: Publication) -> None:
    """Raise WorkloadError if the levels of too many places would be planned as one structured attribute."""
    if deepest_level_size(request) > MAX_DENSE_LEAVES and level_obstacle(request) is not None:
        raise WorkloadError(
            "too-many-places-in-levels",
            f"The levels {uneven_levels(request.workload)} have {deepest_level_size(request):,} places at the deepest "
            f"level.",
            f"Above {MAX_DENSE_LEAVES:,} places, levels with different numbers of places need goal fit-for-use, "
            "targets for every number and no cell budgets.",
            "Meet these conditions, or give each level a group of tables of its own (further_tables = ...).",
            "Nothing was planned.",
        )


def problem(request: Publication, decomposition: Decomposition) -> LevelProblem:
    """Return the tables by levels: the problem to solve, with its proof of a bound."""
    looser, workload = {}, request.workload
    for group in decomposition.tables:
        for number, j in zip(group.tables.tolist(), group.numbers[:, 0].tolist(), strict=True):
            varying = target_ratios(workload, workload.tables[number])
            if varying is not None:
                looser[j] = varying[1]
    replaced = request.unit.neighbours is Neighbours.REPLACE_ONE
    return LevelProblem.from_decomposition(
        decomposition, workload.domain, levels_of_one_tree(workload), looser, replaced=replaced
    )


@final
@dataclass(frozen=True, eq=False)
class Margin:
    """A sector T of attributes outside the tree, with every level that the tables show with it.

    places: The sector T ∪ {ℓ} by level, and T itself at the top.
    information: The information of the answers on all places.
    factor: The product of (1 − 1/n_a) n_a² over T.
    """

    places: dict[int, SectorIndex]
    information: LevelInformation
    factor: float


ByLevel = Mapping[int, Floats]
"""Coefficients of combinations of places, by level, (…, N_ℓ); 0 at other levels."""


@dataclass(frozen=True, eq=False)
class TreeEstimation(abc.ABC):
    """The estimation of every sector from the answers of all levels.

    problem: The tables.
    strategy: The measured strategy.
    decomposition: The workload in sectors, by level.
    """

    problem: LevelProblem
    strategy: Any
    decomposition: Decomposition

    @property
    @abc.abstractmethod
    def tree(self) -> TreeQuotient:
        """The tree of places by classes; the strategy treats all places of a class equally."""

    @property
    @abc.abstractmethod
    def whiteners(self) -> list[Floats]:
        """Whiteners of every sector, (K, 1, 1): their variance is at least that of the estimates."""

    @property
    @abc.abstractmethod
    def margins(self) -> dict[tuple[int, ...], Margin]:
        """The sectors of attributes outside the tree, by these attributes."""

    @abc.abstractmethod
    def _centred_estimates(self, answers: Sequence[Exact], attributes: tuple[int, ...]) -> tuple[ByLevel, ByLevel]:
        """Return a and c by level, where X_T⁻¹ (Σ a_g 1_g + c_g u_g) is the estimate of T."""

    @property
    def lengths(self) -> tuple[int, ...]:
        """The number of noisy answers of each group of sectors."""
        return cast(tuple[int, ...], self.strategy.lengths)

    @cached_property
    def sectors(self) -> dict[tuple[int, ...], dict[int, SectorIndex]]:
        """Sectors by level, for every set of attributes outside the tree."""
        by_attributes: dict[tuple[int, ...], dict[int, SectorIndex]] = {}
        for i, group in enumerate(self.decomposition.groups):
            for k in range(len(group)):
                outer_set, level = self._split(group.attributes[k])
                by_attributes.setdefault(outer_set, {})[level] = i, k
        return by_attributes

    def _split(self, attributes: Indices) -> tuple[tuple[int, ...], int]:
        """Return a sector's attributes outside the tree, and its level, 0 without one."""
        level = self.problem.axes[attributes]
        return tuple(attributes[level == 0].tolist()), int(level.max(initial=0))

    def factor(self, attributes: tuple[int, ...]) -> float:
        """Return Π (1 − 1/n_a) n_a²."""
        return math.prod((1 - 1 / n) * n**2 for n in (self.decomposition.sizes[a] for a in attributes))

    @cached_property
    def class_variances(self) -> list[Floats]:
        """Achieved variances of every table's numbers, by class of places, table by table."""
        out = [np.zeros(len(self.tree.counts[x])) for x in self.problem.level]
        for margin in self.margins.values():
            values = margin.information.variances
            group, k = margin.places[0]
            for m in self.decomposition.groups[group].members:
                tables, here = self.decomposition.tables[m.tables], m.incidence[[k]].indices
                for j, cells in zip(tables.numbers[here, 0].tolist(), tables.cells[here].tolist(), strict=True):
                    level = int(self.problem.level[j])
                    # Besides Π_{a∈T} (1 − 1/n_a), this is Π n_a⁻² over the table's attributes outside T and the tree:
                    # `cells` has all of them, and `factor` and N_ℓ take out the others.
                    out[j] += margin.factor * (self.problem.sizes[level] / cells) ** 2 * values[level]
        return out

    def by_place(self, j: int) -> tuple[Floats, Floats]:
        """Return the variance of each place of table j, (N_ℓ,), and the ratio of its target to the tightest target."""
        level = int(self.problem.level[j])
        ratios = self.problem.looser[j][self.problem.tree.class_of[level]]
        return self.class_variances[j][self.tree.class_of[level]], ratios

    @cached_property
    def variances(self) -> Floats:
        """Largest variance of every table, each divided by the ratio of its target to the tightest target."""
        return np.array([float((np.divide(*self.by_place(j))).max()) for j in range(len(self.problem.level))])

    def estimates(self, answers: Sequence[Exact], group: int, sectors: Indices) -> Floats:
        """Return θ_S of some sectors of a group, all of the same sizes, (K, n_a for a in S…, 1)."""
        if len(sectors) == 1:
            return self._estimate(answers, group, int(sectors[0]))[None]  # a stack would copy a large sector
        return np.stack([self._estimate(answers, group, k) for k in sectors.tolist()])

    def _estimate(self, answers: Sequence[Exact], group: int, k: int) -> Floats:
        attributes = self.decomposition.groups[group].attributes[k]
        outer_set, level = self._split(attributes)
        unweighted, weighted = self._centred_estimates(answers, outer_set)
        return self._placed(self._solved_level(self.margins[outer_set], unweighted, weighted, level), attributes)

    def _solved_level(self, margin: Margin, unweighted: ByLevel, weighted: ByLevel, level: int) -> Floats:
        """Return `_solved` at the places of one level, (…, N_ℓ), for some values of an attribute of T at a time.

        Joint values of T do not depend on each other, so the memory for more than the result stays small. The
        function may write to the arrays that it gets.
        """
        shape, deep = next(iter((*unweighted.values(), *weighted.values()))).shape[:-1], len(margin.information.x) - 1
        numbers = math.prod(shape) * self.problem.sizes[deep]
        if not shape or numbers <= NUMBERS_PER_BATCH:
            return self._solved(margin, unweighted, weighted)[level]
        # At the deepest level, which is the largest, the estimates take the place of its answers.
        out = (weighted or unweighted)[deep] if level == deep else np.empty((*shape, self.problem.sizes[level]))
        axis = int(np.argmax(shape))
        step = max(1, NUMBERS_PER_BATCH * shape[axis] // numbers)
        for i in range(0, shape[axis], step):
            here = (*(slice(None),) * axis, slice(i, i + step))
            parts = ({depth: x[here] for depth, x in arrays.items()} for arrays in (unweighted, weighted))
            out[here] = self._solved(margin, *parts)[level]
        return out

    def _placed(self, estimates: Floats, attributes: Indices) -> Floats:
        """Return a sector's joint estimate from all levels, (…, N_ℓ), along its attributes, (n_a…, 1).

        estimates: The estimates, which the function centres in place.
        """
        here = self.problem.axes[attributes] > 0
        if not here.any():
            return estimates
        # The sector of a level is centred along it, because its sums belong to the sector without the level.
        estimates -= estimates.mean(axis=-1, keepdims=True)
        return np.asarray(np.moveaxis(estimates, -1, int(np.argmax(here)))[..., None])

    def _last(self, tensor: Floats, sector: SectorIndex) -> Floats:
        """Return one number for each joint value of a sector, (n_a…, 1), with its level along the last axis."""
        level = self.problem.axes[self.decomposition.groups[sector[0]].attributes[sector[1]]] > 0
        return np.moveaxis(tensor[..., 0], int(np.argmax(level)), -1) if level.any() else tensor

    def _solved(self, margin: Margin, unweighted: ByLevel, weighted: ByLevel | None = None) -> list[Floats]:
        """Return 1_hᵀ X_T⁻¹ (Σ a_g 1_g + c_g u_g) at the places h of all levels, (…, N_ℓ). unweighted: a. weighted: c.

        The pass upwards computes n_g and e_g from the answers at and below g. They are the products of u_g and of
        1_g − f u_g with X_T⁻¹(Σ …); f is `slope`. The pass downwards adds the parts outside g, as multiples of 1_g and
        of u_g.
        """
        # Two passes take time proportional to the number of places; the matrix X_T itself is never formed.
        terms, above, class_of, c_by_level = margin.information, self.problem.above, self.tree.class_of, weighted or {}
        deep = len(terms.x) - 1
        shape = next(iter((*unweighted.values(), *c_by_level.values()))).shape[:-1]
        a, c = ([x.get(level, np.zeros((*shape, 1))) for level in range(deep + 1)] for x in (unweighted, c_by_level))
        n = [(a[deep] + c[deep]) * terms.gamma[deep][class_of[deep]]]
        e, summed = [np.zeros_like(n[0])], list[Floats]()
        for level in range(deep, 0, -1):
            here, up = class_of[level], class_of[level - 1]
            starts = np.flatnonzero(np.diff(above[level - 1], prepend=-1))
            slope, r = terms.slope[level - 1][up], terms.r[level][here]
            # 1_g − f_g u_g = Σ_h (1_h − f_h u_h) + (f_h − f_g r_h) u_h over the places h below g.
            off = terms.slope[level][here] - slope[above[level - 1]] * r
            below = np.add.reduceat(r * n[0], starts, axis=-1)
            rest = np.add.reduceat(e[0] + off * n[0], starts, axis=-1)
            summed.insert(0, below)
            gathered = below + (a[level - 1] * slope + c[level - 1]) * terms.below[level - 1][up]
            # The measurement of u_g shrinks every covariance with u_g by the ratio of its variance after and before.
            n.insert(0, gathered * (terms.gamma[level - 1] / terms.below[level - 1])[up])
            e.insert(0, rest + a[level - 1] * terms.rest[level - 1][up])
        outside = np.zeros((*shape, 1))
        estimates = [terms.slope[0][class_of[0]] * n[0] + e[0]]
        for level in range(1, deep + 1):
            here, up, lies = class_of[level], class_of[level - 1], above[level - 1]
            outside = outside + a[level - 1]
            excess = n[level - 1] - summed[level - 1] - outside * (terms.slope[level - 1] * terms.below[level - 1])[up]
            added = (excess / terms.below[level - 1][up])[..., lies] * terms.r[level][here]
            outside = outside[..., lies]
            f, own_variance = terms.slope[level][here], terms.gamma[level][here]
            n[level] = n[level] + (outside * f + added) * own_variance
            estimates.append(f * n[level] + e[level] + outside * terms.rest[level][here])
        return estimates

    def covariance(self, f: Mapping[SectorIndex, Floats], h: Mapping[SectorIndex, Floats]) -> float:
        """Return the covariance of two combinations of sector estimates."""
        total, mine, theirs = 0.0, self._by_margin(f), self._by_margin(h)
        for outer_set in mine.keys() & theirs.keys():
            products = self._solved(self.margins[outer_set], mine[outer_set])
            total += sum(float((x * products[level]).sum()) for level, x in theirs[outer_set].items())
        return total

    def apply_covariance(self, f: Mapping[SectorIndex, Floats]) -> dict[SectorIndex, Floats]:
        """Return cov(θ) f, the covariances of the estimates with Σ ⟨f_S, θ_S⟩, for the sectors in f; f_S is centred."""
        out = {}
        for outer_set, combination in self._by_margin(f).items():
            margin = self.margins[outer_set]
            covariances = self._solved(margin, combination)
            for level, (i, k) in margin.places.items():
                out[i, k] = self._placed(covariances[level], self.decomposition.groups[i].attributes[k])
        return out

    def pair_covariances(self, left_numbers: TableNumbers, right_numbers: TableNumbers) -> Floats:
        """Return covariances of pairs of numbers, (P,): sums over T of entries of X_T⁻¹ at their places."""
        sizes = self.decomposition.sizes
        (mine, level, v), (theirs, deeper, w) = self._places_of(left_numbers), self._places_of(right_numbers)
        total = np.zeros(len(left_numbers))
        for outer_set, margin in self.margins.items():
            if set(outer_set) <= set(mine) & set(theirs):
                entries = self._entries(margin, (level, v), (deeper, w))
                for a in outer_set:
                    entries *= agreement(mine[a], theirs[a], sizes[a])
                for axes in (mine, theirs):
                    for a in axes.keys() - set(outer_set):
                        entries *= mean_weight(axes[a], sizes[a])
                total += entries
        return total

    def sums(self, left_sums: WeightedSums, right_sums: WeightedSums, length: int) -> Floats:
        """Return covariances of corresponding sums, (J,): by sector as `pair_covariances`, places by the tree."""
        sizes = self.decomposition.sizes
        (mine, level, v), (theirs, deeper, w) = self._places_of(left_sums.numbers), self._places_of(right_sums.numbers)
        total = np.zeros(length)
        for outer_set, margin in self.margins.items():
            if not set(outer_set) <= set(mine) & set(theirs):
                continue
            for subset, sign in alternating(outer_set, sizes):
                cells = math.prod(sizes[a] for a in subset)
                left_rows, key, factor = left_sums.in_sector(mine, outer_set, subset)
                right_rows, counter_key, counter = right_sums.in_sector(theirs, outer_set, subset)
                keys, which = np.unique(np.concatenate([key, counter_key]), return_inverse=True)
                f = self._place_weights((level, v[left_rows]), which[: len(key)], factor, len(keys))
                h = self._place_weights((deeper, w[right_rows]), which[len(key) :], counter, len(keys))
                products = self._products(margin, f, h)
                total += np.bincount(keys // cells, sign * products, minlength=length)
        return total

    def _place_weights(
        self, places: tuple[int, Indices], rows: Indices, factors: Floats, length: int
    ) -> dict[int, sp.csr_array]:
        """Return combinations of places, a row each, by level; ALL of a level is the top."""
        level, v = places
        out = {}
        # The sum over all places of a level is the one place of the top level.
        for depth, mask in ((level, v != SUM_OF_ALL), (0, v == SUM_OF_ALL)) if level else ((0, v >= SUM_OF_ALL),):
            indices = np.maximum(v[mask], 0) if depth else np.zeros(int(mask.sum()), dtype=np.intp)
            shape = (length, self.problem.sizes[depth])
            out[depth] = sp.csr_array((factors[mask], (rows[mask], indices)), shape=shape)
        return out

    def _products(self, margin: Margin, f: Mapping[int, sp.csr_array], h: Mapping[int, sp.csr_array]) -> Floats:
        """Return fᵀX_T⁻¹h of combinations of places by level, row by row, (R,).

        The pass goes from the leaves up and uses the answers from below only. It keeps the covariances of the two rows
        with u_g and with 1_g − `slope` u_g of their place, and with one another. Adding x u_g u_gᵀ subtracts
        x/(1 + x Var u_g) times the product of the two covariances with u_g.
        """
        terms, class_of = margin.information, self.tree.class_of
        deep = len(terms.x) - 1
        rows = next(iter(f.values())).shape[0]
        total = np.zeros(rows)
        sums = [sp.csr_array((rows, self.problem.sizes[deep]))] * 2
        rests = list(sums)
        for level in range(deep, -1, -1):
            if level < deep:
                above, n = self.problem.above[level], self.problem.sizes[level + 1]
                up = sp.csr_array((np.ones(n), above, np.arange(n + 1)), shape=(n, self.problem.sizes[level]))
                r, slope = terms.r[level + 1][class_of[level + 1]], terms.slope[level][class_of[level]]
                off = terms.slope[level + 1][class_of[level + 1]] - slope[above] * r
                rests = [sp.csr_array((e + b * off) @ up) for e, b in zip(rests, sums, strict=True)]
                sums = [sp.csr_array((b * r) @ up) for b in sums]
                less = terms.gamma[level] / terms.below[level]
                total -= np.asarray(sums[0].multiply(sums[1]) @ (terms.x[level] * less)[class_of[level]])
                sums = [sp.csr_array(b * less[class_of[level]]) for b in sums]
            slope, own_variance, rest = (x[level][class_of[level]] for x in (terms.slope, terms.gamma, terms.rest))
            inputs = [x.get(level, sp.csr_array((rows, self.problem.sizes[level]))) for x in (f, h)]
            below = [e + b * slope for e, b in zip(rests, sums, strict=True)]
            variance = rest + slope**2 * own_variance
            total += (inputs[0].multiply(inputs[1] * variance + below[1]) + inputs[1].multiply(below[0])).sum(axis=1)
            sums = [sp.csr_array(b + x * (slope * own_variance)) for b, x in zip(sums, inputs, strict=True)]
            rests = [sp.csr_array(e + x * rest) for e, x in zip(rests, inputs, strict=True)]
        return total

    def _places_of(self, numbers: TableNumbers) -> tuple[dict[int, Indices], int, Indices]:
        """Return some numbers' values of attributes outside the tree, their level, and their place in it."""
        outer_values, level, places = {}, 0, np.zeros(len(numbers), dtype=np.intp)
        for a, v in numbers.axes.items():
            if self.problem.axes[a]:
                level, places = int(self.problem.axes[a]), v
            else:
                outer_values[a] = v
        return outer_values, level, places

    def _entries(self, margin: Margin, left_places: tuple[int, Indices], right_places: tuple[int, Indices]) -> Floats:
        """Return entries of X_T⁻¹ for pairs of places, each of one level; ALL is the top. As `_products`, by pair."""
        terms, class_of = margin.information, self.tree.class_of
        paths = [self._upwards(*left_places), self._upwards(*right_places)]
        total = np.zeros(len(paths[0][0]))
        sums, rests = ([np.zeros(len(total)), np.zeros(len(total))] for _ in range(2))
        for level in range(max(len(x) for _, x in paths) - 1, -1, -1):
            here = [np.flatnonzero(depths > level) for depths, _ in paths]
            if level < len(terms.below):
                for i, (_, path) in enumerate(paths):
                    rows = here[i]
                    if len(rows):
                        below, g = class_of[level + 1][path[level + 1][rows]], class_of[level][path[level][rows]]
                        r = terms.r[level + 1][below]
                        rests[i][rows] += (terms.slope[level + 1][below] - terms.slope[level][g] * r) * sums[i][rows]
                        sums[i][rows] *= r
                # A measurement above both places changes their covariance only at a place that both lie in.
                both = np.intersect1d(here[0], here[1], assume_unique=True)
                shared = both[paths[0][1][level][both] == paths[1][1][level][both]] if len(both) else both
                less = terms.gamma[level] / terms.below[level]
                if len(shared):
                    g = class_of[level][paths[0][1][level][shared]]
                    total[shared] -= sums[0][shared] * sums[1][shared] * (terms.x[level] * less)[g]
                for i, (_, path) in enumerate(paths):
                    if len(here[i]):
                        sums[i][here[i]] *= less[class_of[level][path[level][here[i]]]]
            starts = [np.flatnonzero(depths == level) for depths, _ in paths]
            for i, (j, rows) in enumerate(
                ((1, starts[0]), (0, starts[1]))
            ):  # one place starts here, and the other lies below or in it
                if not len(rows):
                    continue
                g = class_of[level][paths[i][1][level][rows]]
                inside = rows[paths[j][0][rows] > level]
                if len(inside):
                    inside = inside[paths[i][1][level][inside] == paths[j][1][level][inside]]
                    kinds = class_of[level][paths[i][1][level][inside]]
                    total[inside] += rests[j][inside] + terms.slope[level][kinds] * sums[j][inside]
                same = rows[paths[1][0][rows] == level] if i == 0 else rows[:0]
                if len(same):
                    same = same[paths[0][1][level][same] == paths[1][1][level][same]]
                    kinds = class_of[level][paths[0][1][level][same]]
                    total[same] += terms.rest[level][kinds] + terms.slope[level][kinds] ** 2 * terms.gamma[level][kinds]
                sums[i][rows] = terms.slope[level][g] * terms.gamma[level][g]
                rests[i][rows] = terms.rest[level][g]
        return total

    def _upwards(self, level: int, places: Indices) -> tuple[Indices, list[Indices]]:
        """Return the level of each place, 0 for ALL, (P,); and its chain of places from the top down to itself."""
        # SUM_OF_ALL is below 0, and every place leads to the top.
        chain = [np.maximum(places, 0)]
        for k in range(level, 0, -1):
            chain.insert(0, self.problem.above[k - 1][chain[0]])
        return np.where(places == SUM_OF_ALL, 0, level), chain

    def _by_margin(self, adjoints: Mapping[SectorIndex, Floats]) -> dict[tuple[int, ...], dict[int, Floats]]:
        out: dict[tuple[int, ...], dict[int, Floats]] = {}
        for sector, x in adjoints.items():
            outer_set, level = self._split(self.decomposition.groups[sector[0]].attributes[sector[1]])
            out.setdefault(outer_set, {})[level] = self._last(x, sector)
        return out


@final
class LevelEstimation(TreeEstimation):
    """The estimation from sectors, each level of which is measured, centred, as an attribute of its own."""

    @property
    def tree(self) -> TreeQuotient:
        """The tree of the tables."""
        return self.problem.tree

    @cached_property
    def separate_estimates(self) -> SectorEstimation:
        """The estimation of every sector from its own answers."""
        return SectorEstimation(self.strategy)

    @property
    def whiteners(self) -> list[Floats]:
        """Whiteners of every sector from its own answers; their variance is at least that of the estimates."""
        return self.separate_estimates.whiteners

    def precisions(self, attributes: tuple[int, ...]) -> dict[int, float]:
        """Return ξ_T of the sectors of a set outside the tree, by level."""
        whiteners = self.whiteners
        return {level: 1 / float(whiteners[i][k, 0, 0]) ** 2 for level, (i, k) in self.sectors[attributes].items()}

    def top_information(self, attributes: tuple[int, ...]) -> float:
        """Return the remainder of ξ_T at the top: ξ_T − Σ_ℓ ξ_Tℓ/N_ℓ."""
        # A centred level has no information about the total, which U_ℓᵀU_ℓ would include: the top subtracts it.
        return sum(-x / self.problem.sizes[level] if level else x for level, x in self.precisions(attributes).items())

    @cached_property
    def margins(self) -> dict[tuple[int, ...], Margin]:
        """The sectors of attributes outside the tree, by these attributes."""
        return {outer_set: self._margin(outer_set, places) for outer_set, places in self.sectors.items()}

    def _margin(self, attributes: tuple[int, ...], places: dict[int, SectorIndex]) -> Margin:
        precisions, counts = self.precisions(attributes), self.tree.counts[: max(places) + 1]
        x = [np.full(len(n), precisions.get(level, 0.0)) for level, n in enumerate(counts)]
        x[0] = np.array([self.top_information(attributes)]) if len(x) > 1 else x[0]
        return Margin(
            places,
            LevelInformation.from_weights(self.tree, x, [np.ones(len(n)) for n in counts]),
            self.factor(attributes),
        )

    def _centred_estimates(self, answers: Sequence[Exact], attributes: tuple[int, ...]) -> tuple[ByLevel, ByLevel]:
        weighted, precisions = {}, self.precisions(attributes)
        for level, (i, k) in self.sectors[attributes].items():
            estimate = self.separate_estimates.estimates(answers, i, np.array([k]))[0]
            estimate *= precisions[level]
            weighted[level] = self._last(estimate, (i, k))
        return weighted, {}


class TreeCodec(Codec):
    """Strategies whose attributes are those of the tables and the levels of a tree."""

    def cell_structure(self, request: Publication) -> CellStructure:
        """Return every level as an attribute of its own."""
        sizes = request.workload.domain.sizes
        return CellStructure(tuple((a, sizes[a]) for a in attributes_by_level(request.workload)[0]), ())


@final
class LevelCodec(TreeCodec, SectorCodec):
    """Strategies of one noise scale for each level and margin."""

    def check(self, part: TablePart) -> None:
        """Raise PlanError unless the tables are by levels of a tree, and the strategy measures their sectors."""
        if level_obstacle(part.publication) is not None:
            raise PlanError(
                "levels-without-tree",
                "The plan states that it is by levels, and its publication cannot be planned by levels.",
                "It needs goal fit-for-use, no cell budgets, and one hierarchy whose places differ in their numbers of "
                "places or in their targets.",
                "Use the plan as fitnoise wrote it, or plan again.",
                "Nothing was measured.",
            )
        super().check(part)
        if any(g.basis.tolist() != [[1]] for g in part.strategy.groups):
            raise PlanError(
                "levels-not-counts",
                "The plan is by levels, and its strategy does not measure plain counts of places.",
                "",
                "Use the plan as fitnoise wrote it, or plan again.",
                "Nothing was measured.",
            )
        estimation = cast(LevelEstimation, part.estimation)
        if any(
            # Negative information at the top belongs to no measurement: rounding alone causes a little.
            estimation.top_information(outer_set) < -MIN_MARGIN_REDUCTION * estimation.precisions(outer_set)[0]
            for outer_set in estimation.sectors
        ):
            raise PlanError(
                "level-margin-too-small",
                "The plan is by levels, and it measures a margin with less precision than the counts by level of the "
                "same margin imply.",
                "",
                "Use the plan as fitnoise wrote it, or plan again.",
                "Nothing was measured.",
            )

    def decomposition(self, part: TablePart) -> Decomposition:
        """Return the workload in sectors, with every level as an attribute of its own."""
        return decompose(part.publication.workload, [g.basis for g in part.strategy.groups], by_level=True)


class TreeErrors(BlockErrors):
    """The errors of tables by levels, whose sectors are estimated from the answers of all levels."""

    def table_variances(self, name: str) -> Floats:
        """Return the variance of every number of a table, in the table's shape: that of the number's place."""
        part, estimation, j = self.part, _estimation(self.part), self.part.table_index(name)
        level = int(estimation.problem.level[j])
        table, domain = part.publication.workload[name], part.publication.workload.domain
        by_place, _ = estimation.by_place(j)
        names = [
            part.decomposition.exchangeable[i] for i in np.flatnonzero((estimation.problem.axes == level) & (level > 0))
        ]
        shape = (
            [len(by_place) if domain.attribute_of(a) == domain.attribute_of(names[0]) else 1 for a in table.attributes]
            if names
            else ()
        )
        return np.broadcast_to(by_place.reshape(shape), table.shape(domain))

    def worst(self, i: int) -> tuple[float, float]:
        """Return target and variance of the place with the largest ratio of variance to target."""
        d, estimation = self.part.decomposition, _estimation(self.part)
        j = int(np.arange(d.rows)[d.layout(i).rows][0])
        achieved, looser = estimation.by_place(j)
        worst = int(np.argmax(achieved / looser))
        return float(d.variances[j] * looser[worst]), float(achieved[worst])


@final
class LevelErrors(TreeErrors):
    """The errors of tables with one noise scale for each level and margin."""

    def estimation(self) -> TreeEstimation:
        """Return the estimation of every sector from the answers of all levels."""
        return LevelEstimation(*self.block_parts(problem))


class TreeProof(GaussianProof):
    """The least cost of noise by level or by place, with the bound for all strategies."""

    def separate_rho(self) -> float:
        """Return ρ of separate tables; if targets vary by place, that of the record of costliest places."""
        part, level_problem = self.part, _estimation(self.part).problem
        if part.terms.distinct is not None or all((x == 1).all() for x in level_problem.looser):
            return super().separate_rho()
        costs = np.zeros(len(level_problem.tree.counts[-1]))
        for j, variance in enumerate(part.decomposition.variances * part.relaxation):
            # A record has a cost at its place in each table: costs are carried down to the leaves, and added there.
            precisions = 1 / (variance * level_problem.looser[j])
            for level in range(int(level_problem.level[j]) + 1, len(level_problem.tree.counts)):
                precisions = level_problem.tree.down(precisions, level)
            costs += precisions
        return float(costs.max()) / 2 * part.publication.adjacency.records**2

    def certificate(self) -> Certificate:
        """Return the dual bound at the evidence."""
        level_problem = _estimation(self.part).problem
        bound = meeting_pairs.bound if level_problem.replaced else trees.bound
        proven = bound(level_problem, self.part.evidence)
        return self.relaxed_certificate(proven * self.part.terms.factor)

    def prices(self) -> Floats:
        """Return prices from the dual weights."""
        level_problem = _estimation(self.part).problem
        check = meeting_pairs.check if level_problem.replaced else trees.check
        check(level_problem, self.part.evidence)
        weights = level_problem.by_table(self.part.evidence.numbers)
        return np.asarray(weights / weights.sum())


def _estimation(part: TablePart) -> TreeEstimation:
    return cast(TreeEstimation, part.estimation)


LEVELS = TableMechanism(
    "fit-for-use-by-level", LevelCodec(), LevelErrors, TreeProof, GaussianDescriptions, family="levels and sectors"
)
