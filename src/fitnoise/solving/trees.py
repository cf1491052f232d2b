"""Plans for tables by level of any tree of places, and a bound for all mechanisms.

**Purpose.** A plan has one weight for each level and margin. Such weights cost every record the same, wherever it
lives. For counties and tracts like those of the United States, the cost is within about 1 % of ν². An inverse or a root
of the matrices below takes two passes through the tree. Places that a symmetry of the tree exchanges are handled once
(:class:`TreeQuotient`).

**Symbols** (docs/mathematics/notation.md).

| letter | meaning |
|---|---|
| T | a sector of the attributes outside the tree; sectors that the same tables reach are one problem |
| M | Σ mult_T over the sectors of one problem |
| U_ℓ | the sums over the places of level ℓ |
| y_0, y_ℓ | the weight of the total, and of level ℓ |
| 1_g | the indicator of the leaves in place g |
| n_S | the number of cells that each place of table j splits into: the product of its sizes outside the tree |
| q_jg, c_j | the dual weight of place g in table j, and the target variance |
| p, q | dual weights of leaves and of numbers, each of sum 1; P = diag p |

**Statement.**

    X = y_0 11ᵀ + Σ_ℓ y_ℓ U_ℓᵀU_ℓ,

    prof = Σ M (y_0 + Σ_ℓ y_ℓ) of every record,    var of place g in table j = Σ M 1_gᵀ X⁻¹ 1_g / n_S²,

    Δ² ≥ ν² = (Σ M tr (P^½ A P^½)^½)²,    A = Σ_j n_S⁻² Σ_g (q_jg/c_j) 1_g 1_gᵀ,

for all p and q.

**Replaced records.** Neighbours that replace e by e' cost (e − e')ᵀ X (e − e'), and no mean of this cost over pairs
exceeds Δ². The search for the bound begins with two kinds of pairs (then `meeting_pairs`):

* Two records have places drawn from p and uniform values, independently. The mean cost in sector T is tr P_T X_T with
  P_T = 2 diag p. In the sector of no attributes, P_T = 2 (diag p − p pᵀ).
* Two records of one place differ in exactly the attributes D. Then P_T = 2 (1 − χ_T) diag p. Here χ_T is the product of
  −1/(n_a − 1) over the a of T in D.

With weights λ of these kinds, P_T = c_T diag p. The statement then holds with M √c_T in place of M, and X_T is √c_T
times smaller than the X found so.

Subtracting p pᵀ lowers the sum for M = 1 and c_T = 1 by at most (pᵀ A p)^½. Proof: P^½ 1 is a unit vector u. Now tr
(P^½ A P^½)^½ is the nuclear norm of A^½ P^½, and p pᵀ turns this matrix into A^½ P^½ (I − u uᵀ). The norm falls by at
most the nuclear norm of A^½ P^½ u uᵀ, which is (pᵀ A p)^½.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import final

import numpy as np

from fitnoise.errors import PlanError
from fitnoise.kernel.arrays import Floats, Indices
from fitnoise.request.domain import Domain
from fitnoise.solving.certificates import Evidence
from fitnoise.solving.geometric_mean import Memory
from fitnoise.solving.sectors import Decomposition, SectorGroup

ROUGH, FINE = (2.0, 6.0), (1.0, 16.0)
"""The pairs (h, margin) of the sum that replaces the root. h is its step. The sum extends beyond the possible
eigenvalues by `margin` powers of e. ROUGH serves the search for weights, and FINE the stated bound."""

NUMBERS_PER_BATCH = 2**15
"""The number of terms of that sum times classes of leaves handled at once. Arrays of this size stay in the processor's
cache."""

ROUNDING_ALLOWANCE = 1e-12
"""The allowance for rounding of each term before it is subtracted, and of the total."""

FLOOR = 1e-12
"""The smallest dual weight, as a share of its start value."""

UNRELATED_PAIR_FACTOR, MAX_DIFFERING = 2.0, 8
"""The mean cost of two records drawn independently, as a multiple of one record's cost. Then the number of attributes
outside the tree up to which all sets of differing attributes are enumerated."""

MIN_DUAL_SHARE = 1e-100
"""The share of a dual weight in its sum above which the weights prove a bound."""

SHARPNESS = (20.0, 100.0, 500.0, 3000.0, 20_000.0)
"""The norms of relative variances, in turn; the last one almost equals the largest variance."""


STEPS_WORK, MIN_STEPS = 400_000, 5
"""The largest number of classes of places in all sectors times steps for each norm, ten times as many for replaced
records. Then the smallest number of steps.
The search then takes a second or two. With very many classes, its result is only the start of weights by class."""


@final
@dataclass(frozen=True, eq=False)
class TreeQuotient:
    """A tree of places by classes: a symmetry of the tree exchanges the places of one class.

    above: For each level except the top, the class above each class; not decreasing.
    copies: For each level except the top, the number of places of each class in one place of the class above.
    class_of: The class of every place, by level; the top level is one place.
    """

    above: tuple[Indices, ...]
    copies: tuple[Floats, ...]
    class_of: tuple[Indices, ...]

    @classmethod
    def from_parents(cls, above: Sequence[Indices], colours: Sequence[Indices] | None = None) -> TreeQuotient:
        """Return the quotient of a tree by its symmetries.

        Args:
            above: For each level except the top, the place above each place; not decreasing, and every place above
                occurs.
            colours: For each level from the top, the colour of each place; no symmetry exchanges two colours. None
                gives all places of a level one colour.
        """
        # From the bottom up, two places have one shape if their colours and the shapes below them agree.
        place_colours = colours or [np.zeros(n, dtype=np.intp) for n in (1, *map(len, above))]
        shapes = [place_colours[-1]]
        for parents, mine in zip(reversed(above), reversed(place_colours[:-1]), strict=True):
            order = np.lexsort((shapes[0], parents))
            ends = np.searchsorted(parents, np.arange(int(parents[-1]) + 2))
            below, numbering = shapes[0][order], dict[tuple[int, bytes], int]()
            pairs = zip(mine.tolist(), itertools.pairwise(ends.tolist()), strict=True)
            kinds = [numbering.setdefault((colour, below[i:j].tobytes()), len(numbering)) for colour, (i, j) in pairs]
            shapes.insert(0, np.array(kinds, dtype=np.intp))
        # From the top down, two places are in one class if their shapes and the classes above them agree.
        class_of, out = [np.zeros(1, dtype=np.intp)], []
        copies = []
        for parents, shape in zip(above, shapes[1:], strict=True):
            width = int(shape.max()) + 1
            classes, class_index, count = np.unique(
                class_of[-1][parents] * width + shape, return_inverse=True, return_counts=True
            )
            out.append(classes // width)
            copies.append(count / np.bincount(class_of[-1])[classes // width])
            class_of.append(class_index.ravel())
        return cls(tuple(out), tuple(copies), tuple(class_of))

    @cached_property
    def counts(self) -> list[Floats]:
        """The number of places of each class, by level."""
        return [np.bincount(x).astype(np.float64) for x in self.class_of]

    @cached_property
    def _starts(self) -> list[Indices | None]:
        """The first class within each class above, by level; None if every class above has one class."""
        return [
            None if len(parents) == parents[-1] + 1 else np.flatnonzero(np.diff(parents, prepend=-1)).astype(np.intp)
            for parents in self.above
        ]

    def up(self, values: Floats, level: int) -> Floats:
        """Return for each class of `level` − 1 the sum over the places of `level` within one of its places.

        values: The value of a place of each class of `level`, along the last axis.
        """
        starts, many = self._starts[level - 1], values * self.copies[level - 1]
        return many if starts is None else np.asarray(np.add.reduceat(many, starts, axis=-1))

    def down(self, values: Floats, level: int) -> Floats:
        """Return for each class of `level` the value of the place above.

        Do not change the result in place: it can be `values` itself.

        values: The value of a place of each class of `level` − 1, along the last axis.
        """
        has_one_class = self._starts[level - 1] is None
        return values if has_one_class else np.take(values, self.above[level - 1], axis=-1)

    def variances(self, weights: Sequence[Floats | float]) -> tuple[list[Floats], list[Floats], list[Floats]]:
        """Return (V, v, s) of X = Σ_ℓ Σ_g x_g 1_g 1_gᵀ by class, by level down to the last of these weights.

        weights: x of a place of each class, by level from the top, or one number for all places of a level.

        V_g = 1_gᵀ X⁻¹ 1_g. v_g is this variance if only g and places below it are measured, and s_g if only places
        strictly below g are. The deepest level has an empty s.

        Raises:
            PlanError: X cannot be inverted in floating point.
        """
        deep = len(weights) - 1
        shape = (*np.shape(weights[deep])[:-1], len(self.counts[deep]))
        v = [np.broadcast_to(1 / np.asarray(weights[deep]), shape)]
        s = [np.zeros(0)]
        for level in range(deep, 0, -1):
            s.insert(0, self.up(v[0], level))
            much = 1 + weights[level - 1] * s[0]
            if not (much > 0).all():  # rounding alone can do this
                raise incomparable_level_weights()
            v.insert(0, s[0] / much)
        out = [v[0]]
        for level in range(1, deep + 1):
            fraction = v[level] / self.down(s[level - 1], level)
            out.append(v[level] * (1 - fraction) + fraction**2 * self.down(out[-1], level))
        return out, v, s

    def slopes(self, weights: Floats) -> tuple[list[Floats], list[Floats]]:
        """Return V by level, and for each level its derivatives by all weights, (deep + 1, classes).

        weights: One weight for each level from the top, (deep + 1,).
        """
        deep = len(weights) - 1
        value, v, s = self.variances(list(weights))
        derivatives = np.zeros((deep + 1, len(v[deep])))
        derivatives[deep] = -(v[deep] ** 2)
        dv, ds = [derivatives], [np.zeros(0)]
        for level in range(deep, 0, -1):
            ds.insert(0, self.up(dv[0], level))
            changes = ds[0].copy()
            # d(s/(1 + x s)) = (ds − s² dx)/(1 + x s)².
            changes[level - 1] -= s[level - 1] ** 2
            dv.insert(0, changes / (1 + weights[level - 1] * s[level - 1]) ** 2)
        out = [dv[0]]
        for level in range(1, deep + 1):
            below, top = self.down(s[level - 1], level), self.down(value[level - 1], level)
            part = v[level] / below
            # V = v (1 − φ) + φ² V_above, with φ = v/s; `moves` is dφ.
            moves = dv[level] / below - part / below * self.down(ds[level - 1], level)
            out.append(
                dv[level] * (1 - part) + moves * (2 * part * top - v[level]) + part**2 * self.down(out[-1], level)
            )
        return value, out


@final
@dataclass(frozen=True, eq=False)
class MergedSectors:
    """Sectors that the same tables reach, without any level, as one problem.

    weight: M; in a problem `mixed`, M √c.
    tables: The tables that reach the sectors.
    deep: The deepest level of these tables.
    levels: The levels of these tables, and the top level.
    neighbour_costs: For each kind of neighbours, its cost as a multiple of one record's cost.
    is_total: True for the sector of no attributes.
    scale: 1; in a problem `mixed`, √c, the factor by which its weights are too large.
    """

    weight: float
    tables: Indices
    deep: int
    levels: Indices
    neighbour_costs: Floats
    is_total: bool
    scale: float = 1.0


@final
@dataclass(frozen=True, eq=False)
class LevelProblem:
    """Tables by levels of a tree.

    tree: The tree by classes.
    above: For each level except the top, the place above every place.
    level: The level of each table; 0 for the top, which is one place.
    relative: c_j n_S² of the tightest place, (J,).
    looser: For each table, the target variances of its classes of places, as multiples of the tightest.
    sectors: The merged sectors.
    homes: For each set of attributes outside the tree, the number of its merged sector.
    axes: The level of each exchangeable attribute; 0 for attributes outside the tree and for levels of one place.
    sizes: The number of places of each level.
    """

    tree: TreeQuotient
    above: tuple[Indices, ...]
    level: Indices
    relative: Floats
    looser: tuple[Floats, ...]
    sectors: tuple[MergedSectors, ...]
    homes: Mapping[tuple[int, ...], int]
    axes: Indices
    sizes: tuple[int, ...]

    @classmethod
    def from_decomposition(
        cls,
        d: Decomposition,
        domain: Domain,
        levels: Sequence[str],
        looser: Mapping[int, Floats] | None = None,
        *,
        replaced: bool = False,
    ) -> LevelProblem:
        """Return the problem of a workload in sectors by level.

        Args:
            d: The workload in sectors.
            domain: The domain of the workload.
            levels: The levels of the tree, top down.
            looser: For some tables, the target variances of the places of its level, as multiples of the tightest; else
                1.
            replaced: True if neighbours replace a record; False if they add or remove one.
        """
        places = next(a.tree for a in domain.values() if a.tree is not None and levels[0] in a.levels)
        real = [a for a in levels if domain.sizes[a] > 1]
        depths = [domain.depth(a) for a in real]
        above = [np.zeros(domain.sizes[a], dtype=np.intp) for a in real[:1]]
        above += [places.above(up, down) for up, down in itertools.pairwise(depths)]
        axes = np.array([real.index(a) + 1 if a in real else 0 for a in d.exchangeable], dtype=np.intp)
        sizes = np.array(d.sizes, dtype=np.float64)
        level, relative = np.zeros(d.rows, dtype=np.intp), np.zeros(d.rows)
        for g in d.tables:
            # By level, all attributes are exchangeable, so each table is one row.
            level[g.numbers[:, 0]] = axes[g.axes].max(axis=1, initial=0)
            other_sizes = np.where(axes[g.axes] > 0, 1.0, sizes[g.axes]).prod(axis=1)
            relative[g.numbers[:, 0]] = g.variances[:, 0] * other_sizes**2
        homes, index_by_key, sectors = (
            dict[tuple[int, ...], int](),
            dict[tuple[bytes, bytes, bool], int](),
            list[MergedSectors](),
        )
        differing = _kinds(d, axes) if replaced else None
        for group in d.groups:
            for i in np.flatnonzero(~(axes[group.attributes] > 0).any(axis=1)).tolist():
                tables, outside = _reaching(d, group, i), tuple(group.attributes[i].tolist())
                costs = np.ones(1) if differing is None else _neighbour_factors(d, outside, differing)
                # Sectors that the same tables reach, at equal costs of neighbours, have the same best weights.
                key = tables.tobytes(), costs.tobytes(), replaced and not outside
                home = homes[outside] = index_by_key.setdefault(key, len(sectors))
                if home == len(sectors):
                    passed = np.union1d(level[tables], [0]).astype(np.intp)
                    sectors.append(MergedSectors(0.0, tables, int(level[tables].max()), passed, costs, not outside))
                sectors[home] = replace(sectors[home], weight=sectors[home].weight + float(group.multiplicity[i]))
        counts = (1, *(domain.sizes[a] for a in real))
        targets = dict(looser or {})
        tree = TreeQuotient.from_parents(above, _colours(counts, [(int(level[j]), x) for j, x in targets.items()]))
        ones = [np.ones(len(x)) for x in tree.counts]
        looser_by_class = tuple(
            _by_class(targets[j], tree.class_of[depth]) if j in targets else ones[depth]
            for j, depth in enumerate(level.tolist())
        )
        return cls(
            tree=tree,
            above=tuple(above),
            level=level,
            relative=relative,
            looser=looser_by_class,
            sectors=tuple(sectors),
            homes=homes,
            axes=axes,
            sizes=counts,
        )

    def class_targets(self, j: int) -> Floats:
        """Return c_j n_S² of each class of the places of a table."""
        return np.asarray(self.relative[j] * self.looser[j])

    @property
    def start(self) -> Evidence:
        """Even dual weights: the sum over each class of leaves, and over each class of numbers of each table."""
        counts, n = self.tree.counts, len(self.sectors[0].neighbour_costs)
        shares = [counts[x] / counts[x].sum() / len(self.level) for x in self.level]
        kinds = np.full(n, 1 / n) if self.replaced else None
        return Evidence(counts[-1] / counts[-1].sum(), np.concatenate(shares), kinds=kinds)

    @property
    def replaced(self) -> bool:
        """True if neighbours replace a record.

        In the first kind of neighbours, two records are drawn independently; in the others, they share a place.
        """
        return bool(self.sectors[0].neighbour_costs[0] == UNRELATED_PAIR_FACTOR)

    def mixed(self, kinds: Floats | None) -> LevelProblem:
        """Return the problem with M √c_T in place of M, with c_T the mean cost of neighbours in sector T.

        kinds: The weight of each kind of neighbours, (kinds,); None returns this problem.
        """
        if kinds is None:
            return self
        # Divide before multiplying: products of the smallest doubles would round to these.
        shares = kinds / kinds.sum()
        pairs = ((x, math.sqrt(float(x.neighbour_costs @ shares))) for x in self.sectors)
        return replace(self, sectors=tuple(replace(x, weight=x.weight * root, scale=root) for x, root in pairs))

    def split(self, numbers: Floats) -> list[Floats]:
        """Return the weights of numbers, table by table."""
        ends = np.cumsum([len(self.tree.counts[x]) for x in self.level])
        return np.split(numbers, ends[:-1])

    def by_table(self, numbers: Floats) -> Floats:
        """Return the weight of each table, (J,)."""
        return np.array([x.sum() for x in self.split(numbers)])


def _colours(sizes: Sequence[int], numbers: Sequence[tuple[int, Floats]]) -> list[Indices]:
    """Return for each level a number a place; two places have one number if all values given for them are equal."""
    out = []
    for level, n in enumerate(sizes):
        columns = [np.zeros(n), *(x for depth, x in numbers if depth == level)]
        out.append(np.unique(np.column_stack(columns), axis=0, return_inverse=True)[1].ravel().astype(np.intp))
    return out


def _by_class(values: Floats, class_of: Indices) -> Floats:
    """Return by class a value that is equal for all places of a class."""
    return np.asarray(values[np.unique(class_of, return_index=True)[1]])


def _kinds(d: Decomposition, axes: Indices) -> list[set[int]]:
    """Return the sets of attributes outside the tree in which records of one place differ.

    For at most `MAX_DIFFERING` such attributes, the result has all their nonempty sets. For more it has each attribute
    alone, and the set of all.
    """
    used = {a for g in d.groups for a in np.unique(g.attributes).tolist() if not axes[a]}
    sizes = range(1, len(used) + 1) if len(used) <= MAX_DIFFERING else sorted({1, len(used)})
    return [set(subset) for n in sizes for subset in itertools.combinations(sorted(used), n)]


def _neighbour_factors(d: Decomposition, factors: Sequence[int], kinds: Sequence[set[int]]) -> Floats:
    """Return the cost of each kind of neighbours in a sector, as a multiple of one record's; independent ones first.

    factors: The attributes of the sector, all outside the tree.
    kinds: For each further kind, the attributes in which the two records differ.
    """
    # χ_T: attributes of T in which the records agree contribute the factor 1.
    agreement = (math.prod(-1 / (d.sizes[a] - 1) for a in factors if a in differ) for differ in kinds)
    return np.array([UNRELATED_PAIR_FACTOR, *(2 * (1 - chi) for chi in agreement)])


def _reaching(d: Decomposition, group: SectorGroup, k: int) -> Indices:
    """Return the tables that reach the k-th sector of a group, increasing."""
    tables = [d.tables[m.tables].numbers[m.incidence[[k]].indices, 0] for m in group.members]
    return np.asarray(np.sort(np.concatenate(tables)))


@final
@dataclass(frozen=True, eq=False)
class RootBound:
    """The bound ν² at some dual weights, and the costs and variances of the best mechanism there, almost exactly.

    The mechanism is scaled so that the means of `profile` and of `variances`, by the dual weights, are equal. They are
    about ν; for replaced records, about ν before p pᵀ is subtracted.

    lower: At most ν² for any dual weights, so a lower bound on Δ².
    profile: The cost of a record in each class of leaves.
    variances: The variances of the numbers of each class relative to their targets.
    kinds: Half of the mean cost of each kind of neighbours.
    """

    lower: float
    profile: Floats
    variances: Floats
    kinds: Floats


def bound(problem: LevelProblem, evidence: Evidence) -> float:
    """Return the bound that the evidence proves: no mechanism of its kind that meets the targets has a smaller Δ².

    Args:
        problem: The tables by levels of a tree.
        evidence: The weights of the classes of leaves, and of the classes of numbers, table by table. If records are
            replaced, also those of the kinds of neighbours. The weight of a class is shared evenly among its members.

    Raises:
        PlanError: Weights are not positive, not finite, of the wrong shape, or too different in size for doubles.
    """
    check(problem, evidence)
    with np.errstate(all="ignore"):
        proven = root(problem, evidence, FINE).lower * (1 - ROUNDING_ALLOWANCE)
    if not math.isfinite(proven):
        raise incomparable_dual_weights()
    return proven


def incomparable_level_weights() -> PlanError:
    """Return the error for weights of levels that rounding makes unusable."""
    return PlanError(
        "level-weights-too-far-apart",
        "The weights of levels differ too much in size to rebuild the tables from the answers.",
        "",
        "Bring the targets of the levels closer together in size.",
        "No plan was made.",
    )


def tree_weights_unusable(name: str, needed: int) -> PlanError:
    """Return the error for dual weights of the wrong number or size."""
    return PlanError(
        "tree-weights-unusable",
        f"The dual weights {name} are not {needed} numbers above 0 of comparable size.",
        "",
        "Verify an unaltered plan, or plan again.",
        "No bound was proven.",
    )


def neighbour_weights_unusable() -> PlanError:
    """Return the error for weights of kinds of neighbours that are not those of the problem."""
    return PlanError(
        "neighbour-weights-unusable",
        "The dual weights of the kinds of neighbours are not one positive number for each kind.",
        "",
        "Verify an unaltered plan, or plan again.",
        "No bound was proven.",
    )


def incomparable_dual_weights() -> PlanError:
    """Return the error for dual weights that doubles cannot combine."""
    return PlanError(
        "dual-weights-too-far-apart",
        "The dual weights differ too much in size for floating point.",
        "",
        "Verify an unaltered plan, or plan again.",
        "No bound was proven.",
    )


def check(problem: LevelProblem, evidence: Evidence) -> None:
    """Raise PlanError for weights that prove nothing."""
    like = problem.start
    for name, stated, required in (("p", evidence.cells, like.cells), ("q", evidence.numbers, like.numbers)):
        with np.errstate(over="ignore"):
            total = stated.sum()
        fits = stated.shape == required.shape and math.isfinite(total) and bool((stated > MIN_DUAL_SHARE * total).all())
        if not fits or evidence.pairs is not None:
            raise tree_weights_unusable(name, len(required))
    kinds, expected = evidence.kinds, like.kinds
    same = kinds is None and expected is None
    if kinds is not None and expected is not None:
        same = kinds.shape == expected.shape and bool((kinds > 0).all()) and math.isfinite(kinds.sum())
    if not same:
        raise neighbour_weights_unusable()


def root(problem: LevelProblem, evidence: Evidence, grid: tuple[float, float]) -> RootBound:
    """Return ν² and its mechanism, with √z replaced by a sum of z/(z + t) that is nowhere above it.

    In the result, `profile` and `variances` are twice the derivatives of ν by p and q. They are not those of ν². The
    numbers of `kinds` are the derivatives of ν by the weights of kinds. All are those of ν before p pᵀ is subtracted.

    √z = (1/π) ∫ e^{u/2} z/(z + e^u) du. By Poisson summation, the sum over a grid of step h is at most C √z. Here C = 1
    + 2 Σ sech(2π²k/h). The sum is cut at both ends, in `_root`, and then divided by C. Each term is one inverse of
    weights on the tree, with the weights of leaves increased by t/p.

    grid: (h, margin), as in `ROUGH` and `FINE`.
    """
    tree, counts, problem = problem.tree, problem.tree.counts, problem.mixed(evidence.kinds)
    # The evidence has the sum of each class, and the formulas need the weight of one leaf.
    p = evidence.cells / evidence.cells.sum() / counts[-1]
    shares = problem.split(evidence.numbers / evidence.numbers.sum())
    mass = [p]
    for level in range(len(counts) - 1, 0, -1):
        mass.insert(0, tree.up(mass[0], level))
    # Of C, the terms beyond the eighth are below 1e-38 at both grids, far below the allowance for rounding.
    excess = 1 + 2 * sum(1 / math.cosh(2 * math.pi**2 * k / grid[0]) for k in range(1, 9))
    nu, profile, variances = 0.0, np.zeros(len(p)), [np.zeros(len(x)) for x in shares]
    kinds = np.zeros(len(problem.sectors[0].neighbour_costs))
    for sector in problem.sectors:
        w = [np.zeros(len(x)) for x in counts[: sector.deep + 1]]
        for j in sector.tables.tolist():
            level = int(problem.level[j])
            w[level] = w[level] + shares[j] / counts[level] / problem.class_targets(j)
        norm, values, leaves = _root(tree, w, mass[: sector.deep + 1], grid)
        nu += sector.weight * norm / excess * (1 - ROUNDING_ALLOWANCE)
        kinds += sector.weight * norm / excess * sector.neighbour_costs / (2 * sector.scale**2)
        if sector.is_total and problem.replaced:
            common = sum(float(n @ (a * m**2)) for n, a, m in zip(counts, w, mass, strict=False))
            # Subtracting p pᵀ lowers the sum of this sector by at most (pᵀ A p)^½, of which `common` is the square.
            nu -= sector.scale * math.sqrt(common) * (1 + ROUNDING_ALLOWANCE)
        for level in range(sector.deep + 1, len(counts)):
            leaves = tree.down(leaves, level)
        profile += sector.weight * leaves
        for j in sector.tables.tolist():
            variances[j] += sector.weight * values[int(problem.level[j])] / problem.class_targets(j)
    return RootBound(max(nu, 0.0) ** 2, profile, np.concatenate(variances), kinds)


def _root(
    tree: TreeQuotient, w: list[Floats], mass: Sequence[Floats], grid: tuple[float, float]
) -> tuple[float, list[Floats], Floats]:
    """Return the sum for tr (P^½ A P^½)^½, and those for the diagonals of P # A⁻¹ at all places and P⁻¹ # A at leaves.

    tree: The tree by classes.
    w: The sum of q_jg/(c_j n_S²) over the tables of a place of each class, by level down to the deepest one.
    mass: The sum of p over the leaves of a place of each class, at these levels.
    grid: (h, margin), as in `ROUGH` and `FINE`.
    """
    deep, p, (step, margin) = len(w) - 1, mass[-1], grid
    low = np.log(w[-1]) + np.log(p)
    high = math.log(_max_eigenvalue(tree, w, mass))
    # A is at least the diagonal of the leaves' own weights, so no eigenvalue is below the least w p of a leaf.
    u = np.arange(float(low.min()) - margin, high + margin + step, step)
    grid_factors = np.exp(u / 2)
    # Each term left out exceeds the first or last term times a power of e^{−h/2}. So the geometric series of these
    # powers, which the first and the last term take over, only lower the sum.
    grid_factors[[0, -1]] /= 1 - math.exp(-step / 2)
    grid_factors *= step / math.pi
    sums, leaves = [np.zeros(len(x)) for x in w], np.zeros(len(p))
    for batch in np.array_split(np.arange(len(u)), math.ceil(len(u) * len(p) / NUMBERS_PER_BATCH)):
        factors, t = grid_factors[batch], np.exp(u[batch])[:, None]
        values, v, s = tree.variances([*(x[None, :] for x in w[:-1]), w[-1] + t / p])
        # The remaining share of a leaf, 1 − (t/p) V, is a sum of positive terms. As a difference it would cancel.
        lost = np.zeros((len(t), 1))
        for level in range(1, deep + 1):
            up = w[level - 1] * s[level - 1]
            gone = (up / (1 + up) + lost / s[level - 1]) / s[level - 1]
            lost = v[level] ** 2 * tree.down(gone, level)
        leaves += factors @ (w[-1] * v[-1] + t / p * lost)
        sums = [a + factors @ np.broadcast_to(x, (len(t), x.shape[-1])) for a, x in zip(sums, values, strict=True)]
    leaves /= p
    return float((tree.counts[deep] * p) @ leaves), sums, leaves


def _max_eigenvalue(tree: TreeQuotient, w: Sequence[Floats], mass: Sequence[Floats]) -> float:
    """Return an upper bound of the largest eigenvalue of P^½ A P^½: the largest row sum of A P, along a path."""
    path = w[0] * mass[0]
    for level in range(1, len(w)):
        path = tree.down(path, level) + w[level] * mass[level]
    return float(path.max())


def ascend(problem: LevelProblem, gap: float, iterations: int) -> Evidence:
    """Return dual weights that almost maximise the bound: plain steps, accelerated while the bound rises.

    gap: The relative gap between primal and bound at which the search ends; replaced records ignore it.
    iterations: The largest number of evaluations of the bound.
    """
    evidence = problem.start
    blocks = [evidence.cells, evidence.numbers, *([] if evidence.kinds is None else [evidence.kinds])]
    ends = np.cumsum([len(x) for x in blocks])[:-1]
    weights, memory = np.concatenate(blocks), Memory()
    floor = FLOOR * weights
    best, best_evidence, before, safe = 0.0, evidence, 0.0, weights
    for _ in range(iterations):
        p, q, *kinds = np.split(weights, ends)
        here = Evidence(p, q, kinds=kinds[0] if kinds else None)
        bound = root(problem, here, ROUGH)
        if bound.lower > best:
            best, best_evidence = bound.lower, here
        gradients = [(p, bound.profile), (q, bound.variances), *((x, bound.kinds) for x in kinds)]
        if bound.lower == 0 or (bound.profile.max() * bound.variances.max() / bound.lower < 1 + gap and not kinds):
            break
        # The jump lowered the bound: go back to the plain step.
        if bound.lower < before * (1 - 1e-9):
            weights, before = safe, 0.0
            memory.clear()
            continue
        slopes = np.concatenate([x / (block @ x) for block, x in gradients])
        safe = _mix_with_uniform(weights * np.clip(slopes, 1e-6, 1e6) ** 0.9, ends, floor)
        before = bound.lower
        jump = memory.extrapolate(weights, safe)
        weights = safe if jump is None else _mix_with_uniform(jump, ends, floor)
    return best_evidence


def _mix_with_uniform(weights: Floats, ends: Indices, floor: Floats) -> Floats:
    out = np.concatenate([x / x.sum() for x in np.split(weights, ends)])
    return np.asarray(np.maximum(out, floor))


def solve(problem: LevelProblem) -> list[Floats]:
    """Return the best weights found of each merged sector: y_ℓ for the levels from 0 to its deepest one, (deep + 1,).

    y_ℓ is 0 for a level below the top without a table. The search replaces the largest relative variance by norms of
    all relative variances, and their exponent grows (SHARPNESS). The result is scaled: its largest relative variance is
    1.
    """
    tree = problem.tree
    # Tables of one level in the same sectors have equal variances, so only the tightest target of each place counts.
    targets: dict[tuple[int, bytes], tuple[Floats, list[int]]] = {}
    sectors_by_table: list[list[int]] = [[] for _ in problem.level]
    for c, sector in enumerate(problem.sectors):
        for j in sector.tables.tolist():
            sectors_by_table[j].append(c)
    for j, (level, own_sectors) in enumerate(zip(problem.level.tolist(), sectors_by_table, strict=True)):
        key = level, np.array(own_sectors).tobytes()
        targets[key] = (
            np.minimum(problem.class_targets(j), targets[key][0]) if key in targets else problem.class_targets(j),
            own_sectors,
        )
    places = [(c, int(level)) for c, x in enumerate(problem.sectors) for level in x.levels]
    price = np.array([problem.sectors[c].weight for c, _ in places])
    columns = [[i for i, (k, _) in enumerate(places) if k == c] for c in range(len(problem.sectors))]

    def weights(y: Floats) -> list[Floats]:
        out = [np.zeros(x.deep + 1) for x in problem.sectors]
        for (c, level), value in zip(places, np.exp(y).tolist(), strict=True):
            out[c][level] = value
        return out

    def relative(y: Floats) -> list[tuple[Floats, list[tuple[int, Floats]]]]:
        """Return the relative variances by class of the tightest of equal tables, and their slopes by merged sector."""
        slopes = [tree.slopes(x) for x in weights(y)]
        out = []
        for (level, _), (target, own_sectors) in targets.items():
            values = sum(problem.sectors[c].weight * slopes[c][0][level] for c in own_sectors) / target
            moves = [(c, problem.sectors[c].weight * slopes[c][1][level] / target) for c in own_sectors]
            out.append((np.asarray(values), moves))
        return out

    def smoothed(y: Floats, norm: float) -> tuple[float, Floats]:
        relatives = relative(y)
        largest = max(float(v.max()) for v, _ in relatives)
        total = sum(float(((v / largest) ** norm).sum()) for v, _ in relatives)
        slope = np.zeros(len(y))
        for values, moves in relatives:
            gradient = (values / largest) ** (norm - 1) / (largest * total)
            for c, m in moves:
                slope[columns[c]] += (m @ gradient)[problem.sectors[c].levels]
        x = np.exp(y)
        cost = float(price @ x)
        return math.log(cost) + math.log(largest) + math.log(total) / norm, x * (price / cost + slope)

    tightest = [
        [problem.relative[x.tables[problem.level[x.tables] >= level]].min() for level in x.levels]
        for x in problem.sectors
    ]
    y = -np.log(np.concatenate(tightest))
    import scipy.optimize as so  # takes as long as a small plan

    size = sum(len(n) for x in problem.sectors for n in tree.counts[: x.deep + 1])
    steps = max(MIN_STEPS, min(500, (10 if problem.replaced else 1) * STEPS_WORK // size))
    for norm in SHARPNESS:
        y = so.minimize(smoothed, y, args=(norm,), jac=True, method="L-BFGS-B", options={"maxiter": steps}).x
    worst = max(float(v.max()) for v, _ in relative(y))
    # The search minimises norms. This scale makes the largest relative variance itself 1.
    return [x * worst for x in weights(y)]


def separate_noise_cost(problem: LevelProblem, d: Decomposition, precisions: Floats) -> float:
    """Return Δ², the cost of independent noise on every number of each table, combined for all by least squares.

    A table of a level has n_S cells for each place. Independent noise of precision w on each cell adds w/n_S to the
    level's weight in all sectors of the table, and costs every record w. All noise is scaled so that the worst number
    just meets its target.

    Args:
        problem: The tables by levels of a tree.
        d: The tables in sectors.
        precisions: The precisions of the numbers of each table, up to one common factor, (J,).
    """
    tree, cells = problem.tree, np.sqrt(problem.relative / d.variances)
    achieved = [np.zeros(len(tree.counts[level])) for level in problem.level]
    for sector in problem.sectors:
        weights = np.zeros(sector.deep + 1)
        np.add.at(weights, problem.level[sector.tables], (precisions / cells)[sector.tables])
        values, _, _ = tree.variances(list(weights))
        for j in sector.tables.tolist():
            achieved[j] += sector.weight * values[int(problem.level[j])] / problem.class_targets(j)
    return float(precisions.sum()) * max(float(x.max()) for x in achieved)


def factors(problem: LevelProblem, d: Decomposition, weights: Sequence[Floats]) -> list[Floats]:
    """Return F with F² = ξ_S/n_S of each sector S, (K,) by group, from weights by level of each merged sector.

    ξ_S is 1/var θ_S of the sector from its own answers. S is T with level ℓ of N_ℓ places: n_S = n_T N_ℓ and ξ_S = n_T
    y_ℓ. For T itself, ξ_T = n_T (y_0 + Σ_ℓ y_ℓ/N_ℓ).
    """
    weights_by_home = {home: weights[i] / problem.sectors[i].scale for home, i in problem.homes.items()}
    levels = [problem.axes[g.attributes] for g in d.groups]
    out = []
    for g, level in zip(d.groups, levels, strict=True):
        deepest = level.max(axis=1, initial=0)
        squares = np.empty(len(g))
        for k, depth in enumerate(deepest.tolist()):
            y = weights_by_home[tuple(g.attributes[k][level[k] == 0].tolist())]
            squares[k] = y[depth] / problem.sizes[depth] if depth else y[0] + (y[1:] / problem.sizes[1 : len(y)]).sum()
        out.append(np.sqrt(squares))
    return out
