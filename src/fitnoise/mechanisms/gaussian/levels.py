"""Tables by levels of trees whose places have different numbers of places: one noise scale a level and margin.

Each level is measured as an attribute of its own, so the integers, their price and their noise are those of sectors. A
record lies in one place of every level, so these tell of the same records: every sector is estimated from the answers
of all levels (`solving/trees.py` has the letters),

    X_T θ_T = Σ_ℓ ξ_Tℓ U_ℓᵀ θ̂_Tℓ + ξ_T 1 θ̂_T,     X_T = (ξ_T − Σ_ℓ ξ_Tℓ/N_ℓ) 11ᵀ + Σ_ℓ ξ_Tℓ U_ℓᵀU_ℓ,

θ̂_Tℓ what sector T ∪ {ℓ} alone says, centred along ℓ, and 1/ξ_Tℓ its variance. All levels agree then, and
cov θ_T = C_T ⊗ X_T⁻¹, two passes through the tree. Untrusted: a mistake here costs accuracy.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, cast, final

import numpy as np
import scipy.sparse as sp

from fitnoise.errors import PlanError, WorkloadError
from fitnoise.kernel.arrays import Exact, Floats, Indices
from fitnoise.kernel.designs._base import Cells
from fitnoise.kernel.designs.sectors import Strategy
from fitnoise.kernel.units import Neighbours
from fitnoise.mechanisms._base import Place, Sectored
from fitnoise.mechanisms.gaussian.estimate import SectorEstimation
from fitnoise.mechanisms.gaussian.mechanism import Gaussian
from fitnoise.mechanisms.numbers import ALL, Numbers, Weighted, agreement, alternating, share
from fitnoise.request.publication import Goal, Publication
from fitnoise.request.targets import By, z_score
from fitnoise.request.workloads import Workload, attributes_by_level, uneven_levels
from fitnoise.solving import trees
from fitnoise.solving.certificates import Certificate
from fitnoise.solving.sectors import Decomposition, decompose
from fitnoise.solving.trees import ByLevel

if TYPE_CHECKING:
    from fitnoise.mechanisms.tables import TablePart

SLACK = 2.0**-10
"""By how much less a margin may be measured than its levels, to be sure that nothing cancels; rounding takes 2⁻²⁰."""

MOST = 2_000
"""Leaves up to which other objectives and neighbours are planned, as one structured attribute: in hours."""


def possible(asked: Publication) -> bool:
    """Whether tables can be planned by levels of a tree."""
    plain = asked.objective.goal is Goal.FIT_FOR_USE and asked.cell_budgets is None
    return plain and asked.unit.neighbours is Neighbours.ADD_OR_REMOVE_ONE and bool(uneven_levels(asked.workload))


def places(asked: Publication) -> int:
    """How many places the deepest of some `uneven_levels` has; 0 where there are none."""
    levels = uneven_levels(asked.workload)
    return asked.workload.domain.sizes[levels[-1]] if levels else 0


def refuse_endless(asked: Publication) -> None:
    """Raise WorkloadError where the levels of so many places would be planned as one structured attribute."""
    if places(asked) > MOST and not possible(asked):
        raise WorkloadError(
            f"the levels {uneven_levels(asked.workload)} have {places(asked):,} places at the deepest, and places of "
            "different numbers of places. At any size they are planned for targets of every number (goal fit-for-use) "
            "without cell budgets, and for "
            f"neighbours that add or remove a record; otherwise at most {MOST:,} are. Ask for that, or give each level "
            "a group of tables of its own (also = ...). Nothing was planned."
        )


def problem(workload: Workload, decomposition: Decomposition) -> ByLevel:
    """Tables by levels, as what is solved and what proves its bound."""
    looser = {}
    for group in decomposition.tables:
        for number, j in zip(group.tables.tolist(), group.numbers[:, 0].tolist(), strict=True):
            table = workload.tables[number]
            if isinstance(table.target.number, By):
                wanted = table.variances(workload.domain, workload.confidence)
                axis = table.attributes.index(table.target.number.attribute)
                along = wanted[tuple(slice(None) if i == axis else 0 for i in range(wanted.ndim))]
                looser[j] = along / along.min()
    return ByLevel.of(decomposition, workload.domain, uneven_levels(workload), looser)


@final
@dataclass(frozen=True, eq=False)
class Margin:
    """A sector T of attributes beside the tree, with every level in which it is measured.

    places: of T ∪ {ℓ} by level, of T itself at the top. precisions: ξ of each. weights: of X_T by level from the top
    down, (deep + 1,). factor: Π (1 − 1/n_a) n_a² over T.
    """

    places: dict[int, Place]
    precisions: dict[int, float]
    weights: Floats
    factor: float


@final
@dataclass(frozen=True, eq=False)
class TreeEstimation:
    """Every sector from the answers of all levels. Post-processing.

    asked: the tables. strategy: what is measured. decomposition: the workload in sectors, by level.
    """

    asked: ByLevel
    strategy: Strategy
    decomposition: Decomposition

    @cached_property
    def alone(self) -> SectorEstimation:
        """Every sector from its own answers."""
        return SectorEstimation(self.strategy)

    @property
    def lengths(self) -> tuple[int, ...]:
        """How many noisy answers each group of sectors has."""
        return self.strategy.lengths

    @property
    def whiteners(self) -> list[Floats]:
        """Of every sector from its own answers, which is more than the estimates vary."""
        return self.alone.whiteners

    @cached_property
    def margins(self) -> dict[tuple[int, ...], Margin]:
        """The sectors of attributes beside the tree, by these."""
        found: dict[tuple[int, ...], dict[int, tuple[Place, float]]] = {}
        for i, (group, whiteners) in enumerate(zip(self.decomposition.groups, self.whiteners, strict=True)):
            for k, w in enumerate(whiteners[:, 0, 0].tolist()):
                beside, level = self._split(group.attributes[k])
                found.setdefault(beside, {})[level] = (i, k), 1 / w**2
        return {beside: self._margin(beside, places) for beside, places in found.items()}

    def _split(self, attributes: Indices) -> tuple[tuple[int, ...], int]:
        """A sector's attributes beside the tree, and its level, 0 for none."""
        level = self.asked.axes[attributes]
        return tuple(attributes[level == 0].tolist()), int(level.max(initial=0))

    def _margin(self, beside: tuple[int, ...], found: Mapping[int, tuple[Place, float]]) -> Margin:
        precisions = {level: x for level, (_, x) in found.items()}
        weights = np.zeros(max(found) + 1)
        for level, x in precisions.items():
            weights[level] += x
            weights[0] -= x / self.asked.sizes[level] if level else 0.0
        sizes = [self.decomposition.sizes[a] for a in beside]
        factor = math.prod((1 - 1 / n) * n**2 for n in sizes)
        return Margin({level: place for level, (place, _) in found.items()}, precisions, weights, factor)

    @cached_property
    def variances(self) -> list[Floats]:
        """Achieved variances of every table's numbers, by class of places, table by table."""
        out = [np.zeros(len(self.asked.tree.counts[x])) for x in self.asked.level]
        for margin in self.margins.values():
            values = self.asked.tree.variances(list(margin.weights))[0]
            group, k = margin.places[0]
            for m in self.decomposition.groups[group].members:
                tables, here = self.decomposition.tables[m.tables], m.incidence[[k]].indices
                for j, cells in zip(tables.numbers[here, 0].tolist(), tables.cells[here].tolist(), strict=True):
                    level = int(self.asked.level[j])
                    out[j] += margin.factor * (self.asked.sizes[level] / cells) ** 2 * values[level]
        return out

    @property
    def worst(self) -> Floats:
        """Of every table the largest of these, each less by how much more it may be than that of the tightest place."""
        return np.array([(x / more).max() for x, more in zip(self.variances, self.asked.looser, strict=True)])

    def estimates(self, answers: Sequence[Exact], group: int, sectors: Indices) -> Floats:
        """θ_S of some sectors of a group, all of the same sizes, (K, n_a for a in S…, 1)."""
        return np.stack([self._estimate(answers, group, k) for k in sectors.tolist()])

    def _estimate(self, answers: Sequence[Exact], group: int, k: int) -> Floats:
        attributes = self.decomposition.groups[group].attributes[k]
        beside, level = self._split(attributes)
        margin, given = self.margins[beside], {}
        for own, (i, place) in margin.places.items():
            alone = self.alone.estimates(answers, i, np.array([place]))[0]
            given[own] = margin.precisions[own] * self._last(alone, (i, place))
        return self._placed(self._solved(margin, given)[level], attributes)

    def _placed(self, found: Floats, attributes: Indices) -> Floats:
        """What all levels together say of a sector, (…, N_ℓ), along its attributes, (n_a…, 1)."""
        here = self.asked.axes[attributes] > 0
        if not here.any():
            return found
        centred = found - found.mean(axis=-1, keepdims=True)
        return np.asarray(np.moveaxis(centred, -1, int(np.argmax(here)))[..., None])

    def _last(self, tensor: Floats, place: Place) -> Floats:
        """One number for each joint value of a sector, (n_a…, 1), with its level along the last axis."""
        level = self.asked.axes[self.decomposition.groups[place[0]].attributes[place[1]]] > 0
        return np.moveaxis(tensor[..., 0], int(np.argmax(level)), -1) if level.any() else tensor

    def _solved(self, margin: Margin, given: Mapping[int, Floats]) -> list[Floats]:
        """X_T⁻¹ Σ_ℓ U_ℓᵀ r_ℓ at the places of all levels, (…, N_ℓ). given: r_ℓ, where it is not 0, likewise."""
        tree, above, weights = self.asked.tree, self.asked.above, margin.weights
        _, v, s = tree.variances(list(weights))
        shape = next(iter(given.values())).shape[:-1]
        deep = len(weights) - 1
        found = [given.get(deep, np.zeros((*shape, self.asked.sizes[deep]))) * v[deep][tree.of[deep]]]
        sums: list[Floats] = []
        for level in range(deep, 0, -1):
            starts = np.flatnonzero(np.diff(above[level - 1], prepend=-1))
            below = np.add.reduceat(found[0], starts, axis=-1)
            more = given.get(level - 1, 0.0) - weights[level - 1] * below
            sums.insert(0, below)
            found.insert(0, below + v[level - 1][tree.of[level - 1]] * more)
        for level in range(1, deep + 1):
            share = v[level][tree.of[level]] / s[level - 1][tree.of[level - 1]][above[level - 1]]
            found[level] = found[level] + share * (found[level - 1] - sums[level - 1])[..., above[level - 1]]
        return found

    def covariance(self, f: Mapping[Place, Floats], h: Mapping[Place, Floats]) -> float:
        """Of two combinations of what sectors are estimated to be."""
        total, mine, theirs = 0.0, self._by_margin(f), self._by_margin(h)
        for beside in mine.keys() & theirs.keys():
            moved = self._solved(self.margins[beside], mine[beside])
            total += sum(float((x * moved[level]).sum()) for level, x in theirs[beside].items())
        return total

    def moved(self, f: Mapping[Place, Floats]) -> dict[Place, Floats]:
        """How each sector's estimate varies with a combination of them: cov(θ) f."""
        out = {}
        for beside, given in self._by_margin(f).items():
            margin = self.margins[beside]
            found = self._solved(margin, given)
            for level, (i, k) in margin.places.items():
                out[i, k] = self._placed(found[level], self.decomposition.groups[i].attributes[k])
        return out

    def between(self, one: Numbers, other: Numbers) -> Floats:
        """Covariances of pairs of numbers, (P,): over T, what X_T⁻¹ says of their places."""
        sizes, (mine, level, v), (theirs, deeper, w) = self.decomposition.sizes, self._at(one), self._at(other)
        total = np.zeros(len(one))
        for beside, margin in self.margins.items():
            if set(beside) <= set(mine) & set(theirs):
                found = self._entries(margin, (level, v), (deeper, w))
                for a in beside:
                    found *= agreement(mine[a], theirs[a], sizes[a])
                for axes in (mine, theirs):
                    for a in axes.keys() - set(beside):
                        found *= share(axes[a], sizes[a])
                total += found
        return total

    def sums(self, one: Weighted, other: Weighted, length: int) -> Floats:
        """Covariances of sums of numbers, one by one, (J,): by sector as `between`, places by the tree."""
        sizes = self.decomposition.sizes
        (mine, level, v), (theirs, deeper, w) = self._at(one.numbers), self._at(other.numbers)
        total = np.zeros(length)
        for beside, margin in self.margins.items():
            if not set(beside) <= set(mine) & set(theirs):
                continue
            for kept, sign in alternating(beside, sizes):
                cells = math.prod(sizes[a] for a in kept)
                some, key, factor = one.within(mine, beside, kept)
                others, counter_key, counter = other.within(theirs, beside, kept)
                keys, which = np.unique(np.concatenate([key, counter_key]), return_inverse=True)
                f = self._spread((level, v[some]), which[: len(key)], factor, len(keys))
                h = self._spread((deeper, w[others]), which[len(key) :], counter, len(keys))
                found = self._products(margin, f, h)
                total += np.bincount(keys // cells, sign * found, minlength=length)
        return total

    def _spread(
        self, places: tuple[int, Indices], rows: Indices, factors: Floats, length: int
    ) -> dict[int, sp.csr_array]:
        """Combinations of places, a row each, by level; ALL of a level is the top."""
        level, v = places
        out = {}
        for own, some in ((level, v != ALL), (0, v == ALL)) if level else ((0, v >= ALL),):
            at = np.maximum(v[some], 0) if own else np.zeros(int(some.sum()), dtype=np.intp)
            shape = (length, self.asked.sizes[own])
            out[own] = sp.csr_array((factors[some], (rows[some], at)), shape=shape)
        return out

    def _products(self, margin: Margin, f: Mapping[int, sp.csr_array], h: Mapping[int, sp.csr_array]) -> Floats:
        """Row by row fᵀX_T⁻¹h of combinations of places, by level, (R,).

        From the leaves up, what is known from below alone: the covariance of the two rows with the sum of the place in
        which they are, and with one another; x 1_g 1_gᵀ more takes x/(1 + x s) of their product.
        """
        tree, of, weights = self.asked.tree, self.asked.tree.of, margin.weights
        _, v, s = tree.variances(list(weights))
        deep = len(weights) - 1
        rows = next(iter(f.values())).shape[0]
        total = np.zeros(rows)
        mine = theirs = sp.csr_array((rows, self.asked.sizes[deep]))
        for level in range(deep, -1, -1):
            if level < deep:
                above, n = self.asked.above[level], self.asked.sizes[level + 1]
                up = sp.csr_array((np.ones(n), above, np.arange(n + 1)), shape=(n, self.asked.sizes[level]))
                mine, theirs = sp.csr_array(mine @ up), sp.csr_array(theirs @ up)
                less = 1 / (1 + weights[level] * s[level])
                total -= mine.multiply(theirs) @ (weights[level] * less)[of[level]]
                kept = sp.diags_array(less[of[level]])
                mine, theirs = sp.csr_array(mine @ kept), sp.csr_array(theirs @ kept)
            here = sp.diags_array(v[level][of[level]])
            own, other = (x.get(level, sp.csr_array((rows, self.asked.sizes[level]))) for x in (f, h))
            total += (own.multiply(theirs) + other.multiply(mine + own @ here)).sum(axis=1)
            mine, theirs = sp.csr_array(mine + own @ here), sp.csr_array(theirs + other @ here)
        return total

    def _at(self, numbers: Numbers) -> tuple[dict[int, Indices], int, Indices]:
        """Along attributes beside the tree where some numbers stand; their level, and the place there."""
        beside, level, place = {}, 0, np.zeros(len(numbers), dtype=np.intp)
        for a, v in numbers.axes.items():
            if self.asked.axes[a]:
                level, place = int(self.asked.axes[a]), v
            else:
                beside[a] = v
        return beside, level, place

    def _entries(self, margin: Margin, one: tuple[int, Indices], other: tuple[int, Indices]) -> Floats:
        """Entries of X_T⁻¹ for pairs of places, each of one level; ALL is the top.

        Estimates of the places in g get the shares v_h/s_g of what g has, and vary beside that as independent numbers
        do that add up to 0. So a place and one in it have V of the larger times the shares from there down; two places
        that part below g, in h and k, have (V_g − s_g) times the shares of both.
        """
        whole, own, below = self.asked.tree.variances(list(margin.weights))
        of, (v, mine), (w, theirs) = self.asked.tree.of, self._upwards(*one), self._upwards(*other)
        out, together = np.full(len(v), whole[0][0]), np.ones(len(v), dtype=bool)
        for k in range(1, max(len(mine), len(theirs))):
            shares = [np.ones(len(v)), np.ones(len(v))]
            for i, (level, above) in enumerate(((v, mine), (w, theirs))):
                deep = np.flatnonzero(level >= k)
                if len(deep):
                    within = below[k - 1][of[k - 1][above[k - 1][deep]]]
                    shares[i][deep] = own[k][of[k][above[k][deep]]] / within
            out *= shares[0] * shares[1]
            both = np.flatnonzero(together & (v >= k) & (w >= k))
            together[:] = False
            if len(both):
                met = mine[k][both] == theirs[k][both]
                same, apart = both[met], both[~met]
                out[same] = whole[k][of[k][mine[k][same]]]
                top = of[k - 1][mine[k - 1][apart]]
                out[apart] = (shares[0] * shares[1])[apart] * (whole[k - 1][top] - below[k - 1][top])
                together[same] = True
        return out

    def _upwards(self, level: int, places: Indices) -> tuple[Indices, list[Indices]]:
        """The level of each place, 0 for ALL, (P,); and the places they lie in, from the top down to their own."""
        found = [np.maximum(places, 0)]
        for k in range(level, 0, -1):
            found.insert(0, self.asked.above[k - 1][found[0]])
        return np.where(places == ALL, 0, level), found

    def _by_margin(self, pulled: Mapping[Place, Floats]) -> dict[tuple[int, ...], dict[int, Floats]]:
        out: dict[tuple[int, ...], dict[int, Floats]] = {}
        for place, x in pulled.items():
            beside, level = self._split(self.decomposition.groups[place[0]].attributes[place[1]])
            out.setdefault(beside, {})[level] = self._last(x, place)
        return out


@final
class Levels(Gaussian):
    """The least cost of one noise scale for each level and margin that meets every target."""

    name = "fit-for-use by level"

    def answers(self, asked: Publication) -> bool:
        """None by itself: Gaussian noise is planned so where `fits`."""
        del asked
        return False

    def suits(self, asked: Publication) -> bool:
        """Targets for levels of a tree."""
        return super().answers(asked) and possible(asked)

    def check(self, part: TablePart) -> None:
        """Raise PlanError unless it is for levels of a tree, and the strategy measures the sectors they need."""
        if not possible(part.publication):
            raise PlanError("a plan by levels is for targets of levels of one hierarchy, and add-or-remove-one.")
        super().check(part)
        if any(g.basis.tolist() != [[1]] for g in part.strategy.groups):
            raise PlanError("a plan by levels measures plain counts of places, and these are none.")
        if any(m.weights[0] < -SLACK * m.precisions[0] for m in _estimation(part).margins.values()):
            raise PlanError("a plan by levels measures each margin with all its levels, and this one measures it less.")

    def over(self, asked: Publication) -> Cells:
        """Every level as an attribute of its own."""
        sizes = asked.workload.domain.sizes
        return Cells(tuple((a, sizes[a]) for a in attributes_by_level(asked.workload)[0]), ())

    def decomposition(self, part: TablePart) -> Decomposition:
        """Likewise."""
        return decompose(part.publication.workload, [g.basis for g in part.strategy.groups], by_level=True)

    def estimation(self, part: TablePart) -> TreeEstimation:
        """Every sector from the answers of all levels."""
        return TreeEstimation(problem(part.publication.workload, part.decomposition), part.strategy, part.decomposition)

    def variances(self, part: TablePart) -> Floats:
        """That of the worst place, of every table; where targets vary by place, as if the tightest were all places'."""
        return _estimation(part).worst

    def table_variances(self, part: TablePart, name: str) -> Floats:
        """Of every place its own."""
        own, j = _estimation(part), part.number(name)
        level = int(own.asked.level[j])
        table, domain = part.publication.workload[name], part.publication.workload.domain
        by_place = own.variances[j][own.asked.tree.of[level]]
        names = [part.decomposition.exchangeable[i] for i in np.flatnonzero((own.asked.axes == level) & (level > 0))]
        along = (
            [len(by_place) if domain.home(a) == domain.home(names[0]) else 1 for a in table.attributes] if names else ()
        )
        return np.broadcast_to(by_place.reshape(along), table.shape(domain))

    def table_margins(self, part: TablePart, name: str, confidence: float) -> Floats:
        """Normal quantiles times the standard error."""
        return np.asarray(z_score(confidence) * np.sqrt(self.table_variances(part, name)))

    def worst(self, part: TablePart, i: int) -> tuple[float, float]:
        """Of the place that is the worst for its target."""
        own, j = _estimation(part), int(np.arange(part.decomposition.rows)[part.decomposition.layout(i).rows][0])
        worst = int(np.argmax(own.variances[j] / own.asked.looser[j]))
        wanted = part.decomposition.variances[j] * own.asked.looser[j][worst]
        return float(wanted), float(own.variances[j][worst])

    def separate_rho(self, part: TablePart) -> float:
        """Likewise; where targets vary by place, of the record whose places together cost most."""
        asked = _estimation(part).asked
        if part.terms.apart is not None or all((x == 1).all() for x in asked.looser):
            return super().separate_rho(part)
        paid = np.zeros(len(asked.tree.counts[-1]))
        for j, wanted in enumerate(part.decomposition.variances * part.relaxation):
            own = 1 / (wanted * asked.looser[j])
            for level in range(int(asked.level[j]) + 1, len(asked.tree.counts)):
                own = asked.tree.down(own, level)
            paid += own
        return float(paid.max()) / 2 * part.publication.adjacency.records**2

    def by_hand(self, part: TablePart) -> dict[str, float]:
        """Tables on their own; and likewise, but made one by least squares, for two ways to share a budget."""
        asked, d = _estimation(part).asked, part.decomposition
        factor = part.terms.factor / (2 * part.relaxation)
        return {
            "tables on their own": self.separate_rho(part),
            "shares by the targets, then least squares": factor * trees.by_hand(asked, d, 1 / d.variances),
            "equal shares, then least squares": factor * trees.by_hand(asked, d, np.ones(d.rows)),
        }

    def between(self, one: Numbers, other: Numbers) -> Floats:
        """From the answers of all levels."""
        return _estimation(one.part).between(one, other)

    def sums(self, one: Weighted, other: Weighted, length: int) -> Floats | None:
        """Likewise."""
        return _estimation(one.numbers.part).sums(one, other, length)

    def certificate(self, part: TablePart) -> Certificate:
        """The dual bound at the evidence."""
        bought = 1.0 if part.publication.budget is None else part.relaxation
        proven = trees.bound(_estimation(part).asked, part.evidence) * part.terms.factor
        return Certificate(value=part.value, bound=proven / bought)

    def prices(self, part: TablePart) -> Floats:
        """From the dual weights."""
        asked = _estimation(part).asked
        trees.check(asked, part.evidence)
        weights = asked.by_table(part.evidence.numbers)
        return np.asarray(weights / weights.sum())


def _estimation(part: Sectored) -> TreeEstimation:
    return cast(TreeEstimation, part.estimation)


LEVELS = Levels()
