"""Tables by levels of trees: noise scales by class of place, and weighted sums of places (`kernel/designs/trees.py`).

For a set T of attributes outside the tree, H⁺ y/m_T estimates the sums U_g = Σ k_h U_h with precision x_g:

    x_g = m_T² Π g_a/σ²,    X_T θ_T = Σ_g x_g U_gᵀ ŷ_g,    X_T = Σ_g x_g U_gᵀ U_g,

with the letters H, m_T, U and k of `kernel/designs/trees.py`, and g_a of `estimate.gains`. ŷ_g is that estimate. In
`solving/weighted_trees.py` U_g is u_g, and k is r.

**Trust.** This module is untrusted: a mistake here costs accuracy.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import NDArray

from fitnoise.errors import PlanError, WorkloadError
from fitnoise.kernel.arrays import Exact, Floats, Indices
from fitnoise.kernel.designs._base import INT64_SAFE_BOUND
from fitnoise.kernel.designs.linear import MAX_SCALE, axis_rows
from fitnoise.kernel.designs.trees import MeasuredTree, TreeStrategy
from fitnoise.mechanisms._base import TableMechanism
from fitnoise.mechanisms.documents import read_trees, trees_document
from fitnoise.mechanisms.gaussian.estimate import gains, uncentre
from fitnoise.mechanisms.gaussian.levels import (
    NUMBERS_PER_BATCH,
    ByLevel,
    Margin,
    TreeCodec,
    TreeErrors,
    TreeEstimation,
    TreeProof,
    level_obstacle,
    problem,
)
from fitnoise.mechanisms.gaussian.mechanism import GaussianDescriptions, other_sectors
from fitnoise.mechanisms.gaussian.rounding import MIN_EXPONENT, out_of_reach, rescaled_block
from fitnoise.messages import Message
from fitnoise.solving.sectors import Decomposition, decompose
from fitnoise.solving.trees import LevelProblem, TreeQuotient
from fitnoise.solving.weighted_trees import LevelInformation, TreeWeights, polished

if TYPE_CHECKING:
    from fitnoise.mechanisms.tables import TablePart

BITS, WIDE, FEWER = (16, 14, 12, 10, 8), (12, 11, 10, 9, 8, 7, 6), (7, 6, 5, 4)
"""Bits of the largest k among the places of one place. BITS are tried while sums take at most 64 bits. WIDE follows, in
integers of any size, which are slower to count; then FEWER within 64 bits. Below 8 bits, the rounding of k costs much.
"""

ROOM, PARTS_ROOM = 2**8, 2**12
"""Reserve for the later multiplication of sums that raises noise to 2¹⁰ or more: for records, and for parts of them."""

NEGLIGIBLE_WEIGHT = 2.0**-30
"""Share of the largest weight below which a weight carries no information."""

MAX_SCALE_RATIO = MAX_SCALE / 2 ** (MIN_EXPONENT + 1)
"""Largest ratio of a noise scale to the smallest one of the same set that can be drawn."""

MAX_CLASSES = 350_000
"""The largest number of classes of places, in all: planning takes a minute or two, and about a gigabyte."""


def refuse_endless_classes(problem: LevelProblem) -> None:
    """Raise WorkloadError if too many places differ from all others."""
    classes = sum(map(len, problem.tree.counts))
    if classes > MAX_CLASSES:
        raise WorkloadError(
            "too-many-place-classes",
            f"Among {sum(problem.sizes):,} places, {classes:,} classes have different targets, for "
            "themselves or the places in them.",
            f"At most {MAX_CLASSES:,} classes are planned.",
            "Give many places few different targets, or separate targets to fewer places of a level above.",
            "Nothing was planned.",
        )


def rounded(problem: LevelProblem, d: Decomposition, weights: TreeWeights, records: int, parts: int) -> TreeStrategy:
    """Return integers for the weights of classes, with enough bits to lose almost nothing.

    records: The largest number of records that are counted.
    parts: Number of parts of each record.

    Raises:
        PlanError: A scale is outside the range of the exact sampler.
    """
    # Without different weights all k are 1, and more bits would change nothing.
    unlike = any((a != 1).any() for r in weights.r for a in r)
    ways = [
        *((bits, INT64_SAFE_BOUND) for bits in BITS),
        *((bits, math.inf) for bits in WIDE),
        *((bits, INT64_SAFE_BOUND) for bits in FEWER),
    ]
    for bits, limit in ways if unlike else ways[:1]:
        factors = [_integers(problem.tree, x, r, bits) for x, r in zip(weights.x, weights.r, strict=True)]
        with contextlib.suppress(PlanError):  # more bits need scales of a larger ratio
            if _largest(_assembled(problem, d, factors), ROOM if parts == 1 else PARTS_ROOM) * records * parts < limit:
                break
    if unlike:
        # Rounding changed costs and variances, so x is optimised once more for the rounded k.
        integer_factors = tuple((np.ones(1), *(a.astype(np.float64) for a in k)) for _, k in factors)
        polished_weights = polished(problem, TreeWeights(tuple(tuple(x) for x, _ in factors), integer_factors))
        factors = [(list(x), k) for x, (_, k) in zip(polished_weights.x, factors, strict=True)]
    return _assembled(problem, d, factors)


def _largest(strategy: TreeStrategy, room: int) -> int:
    """Return the largest entry of one record's contribution, times a reserve for later multiplication."""
    sizes = strategy.sizes
    return max(
        # The entries of n I − J are at most n − 1 in size.
        room * math.prod(max(sizes[a] - 1, 1) for a in g.attributes) * math.prod(int(k.max()) for k in g.factors)
        for g in strategy.groups
    )


def _assembled(
    problem: LevelProblem, d: Decomposition, factors: Sequence[tuple[list[Floats], tuple[Any, ...]]]
) -> TreeStrategy:
    """Return the design for every set of attributes, from weights of integer sums and their k."""
    sizes, groups = np.array(d.sizes), []
    for outer_set, i in problem.homes.items():
        each, (x, k) = sizes[list(outer_set)], factors[i]
        gain, cells = float(gains(each)), math.prod(each.tolist())
        # The weights of a mixed problem are too large by this factor.
        too_large = problem.sectors[i].scale
        scales = {level: np.sqrt(gain * too_large / (cells * w)) for level, w in _of_use(x, k).items()}
        highest, lowest = (f([f(s) for s in scales.values()]) for f in (np.max, np.min))
        if highest > MAX_SCALE or highest > lowest * MAX_SCALE_RATIO:
            raise out_of_reach()
        groups.append(MeasuredTree(outer_set, 1, k, scales))
    levels = tuple(int(np.flatnonzero(problem.axes == level)[0]) for level in range(1, len(problem.sizes)))
    return TreeStrategy(d.cell_structure, levels, problem.above, problem.tree.class_of, tuple(groups))


def _of_use(x: Sequence[Floats], k: Sequence[NDArray[np.int64]]) -> dict[int, Floats]:
    """Return weights of integer sums by level, without levels that carry no information.

    The deepest level always stays. Weights are raised to NEGLIGIBLE_WEIGHT times the largest, both for sums whose
    largest entry is 1.
    """
    # A search approaches the weight 0, which would need unbounded noise. The raised weight costs no measurable privacy.
    deep = len(x) - 1
    sizes = [math.prod(int(factors.max()) for factors in k[level:]) ** 2 for level in range(len(x))]
    threshold = NEGLIGIBLE_WEIGHT * max(float(w.max()) * size for w, size in zip(x, sizes, strict=True))
    levels = enumerate(zip(x, sizes, strict=True))
    return {i: np.maximum(w, threshold / size) for i, (w, size) in levels if i == deep or (w * size > threshold).any()}


def _integers(
    tree: TreeQuotient, x: Sequence[Floats], r: Sequence[Floats], bits: int
) -> tuple[list[Floats], tuple[Any, ...]]:
    """Return weights of integer sums, by level, and k: in each place the largest k is 2^bits, or all are 1."""
    deep = len(x) - 1
    size, out, factors = np.ones(len(x[deep])), [x[deep]], list[Any]()
    for level in range(deep, 0, -1):
        part = r[level] * size
        starts = np.flatnonzero(np.diff(tree.above[level - 1], prepend=-1))
        largest = np.maximum.reduceat(part, starts)
        is_equal = bool((part > tree.down(largest, level) * (1 - 2.0 ** -(bits + 1))).all())
        # Equal weights are exact as 1, and need no bits.
        step = largest if is_equal else largest / 2**bits
        # A k of 0 would drop a place from every sum above it, so 1 is the least.
        k = np.maximum(np.rint(part / tree.down(step, level)), 1).astype(np.int64)
        factors.insert(0, k)
        size = step
        out.insert(0, x[level - 1] * size**2)
    return out, tuple(factors)


def rescaled(strategy: TreeStrategy, factor: float, *, up: bool) -> TreeStrategy:
    """Multiply every σ by a factor, cut it to 32 bits (up or down), and multiply the sums so that 2¹⁰ ≤ σ.

    Raises:
        PlanError: A scale is outside the range of the exact sampler, or a multiple would have more than 61 bits.
    """
    groups = []
    for g in strategy.groups:
        cuts = np.cumsum([len(x) for x in g.scales.values()])
        scales, multiples = rescaled_block(
            np.concatenate(list(g.scales.values())) * factor, cuts[-1:], np.array([g.multiple]), up=up
        )
        by_level = dict(zip(g.scales, np.split(scales, cuts[:-1]), strict=True))
        groups.append(replace(g, multiple=int(multiples[0]), scales=by_level))
    return replace(strategy, groups=tuple(groups))


@final
class PlaceEstimation(TreeEstimation):
    """The estimation from weighted sums of places."""

    @cached_property
    def tree(self) -> TreeQuotient:
        """The tree by the classes of the strategy."""
        return classes(self.strategy)

    @property
    def whiteners(self) -> list[Floats]:
        """Whiteners of every sector from all answers, at the place of the largest variance."""
        out = [np.zeros((len(g), 1, 1)) for g in self.decomposition.groups]
        for margin in self.margins.values():
            # One whitener holds for all places of a sector, so it takes the worst of them.
            values = margin.information.variances
            for level, (i, k) in margin.places.items():
                out[i][k, 0, 0] = math.sqrt(float(values[level].max()))
        return out

    @cached_property
    def measured(self) -> dict[tuple[int, ...], tuple[int, MeasuredTree]]:
        """Number and design of each measured tree, by the attributes outside the tree."""
        return {g.attributes: (i, g) for i, g in enumerate(self.strategy.groups)}

    @cached_property
    def margins(self) -> dict[tuple[int, ...], Margin]:
        """The sectors of attributes outside the tree, by these attributes."""
        return {outer_set: self._margin(outer_set, places) for outer_set, places in self.sectors.items()}

    def _margin(self, attributes: tuple[int, ...], places: dict[int, Any]) -> Margin:
        _, g = self.measured[attributes]
        counts = self.tree.counts[: g.deep + 1]
        x = [self._precisions(g, level) if level in g.scales else np.zeros(len(n)) for level, n in enumerate(counts)]
        return Margin(
            places,
            LevelInformation.from_weights(self.tree, x, [np.ones(1), *(k.astype(np.float64) for k in g.factors)]),
            self.factor(attributes),
        )

    def _precisions(self, g: MeasuredTree, level: int) -> Floats:
        gain = float(gains(np.array([self.decomposition.sizes[a] for a in g.attributes], dtype=np.int64)))
        return np.asarray(gain * (g.multiple / g.scales[level]) ** 2)

    def _centred_estimates(self, answers: Sequence[Exact], attributes: tuple[int, ...]) -> tuple[ByLevel, ByLevel]:
        number, g = self.measured[attributes]
        sizes, start, out = [self.decomposition.sizes[a] for a in attributes], 0, dict[int, Floats]()
        rows = self.strategy.rows(g)
        for level in g.scales:
            order, precisions = self.strategy.orders[level], self._precisions(g, level)[self.tree.class_of[level]]
            # The answers come by class of places.
            y = answers[number][start : start + len(order) * rows].reshape(len(order), rows)
            step = max(1, NUMBERS_PER_BATCH // rows)
            for i in range(0, len(order), step):
                here = order[i : i + step]
                theta = y[i : i + step].astype(np.float64).T.reshape(*(axis_rows(x) for x in sizes), -1) / g.multiple
                for axis, x in enumerate(sizes):
                    theta = uncentre(theta, axis, x)
                theta = theta * precisions[here]
                if not i:
                    out[level] = np.empty_like(theta, shape=(*sizes, len(order)))
                out[level][..., here] = theta
            start += y.size
        # The sums have the weights k, so their part of the estimate stands with u_g, not with 1_g.
        return {}, out


def classes(strategy: TreeStrategy) -> TreeQuotient:
    """Return the tree of a strategy with one node for each class of places.

    Raises:
        PlanError: Places of one class contain different places, or lie in places of different classes. Or classes are
            not in the order of those above.
    """
    above, copies = [], []
    for up, class_of, parents in zip(strategy.classes, strategy.classes[1:], strategy.above, strict=False):
        first_places = np.unique(class_of, return_index=True)[1]
        lies = up[parents[first_places]]
        kinds, count = np.unique(parents * len(first_places) + class_of, return_counts=True)
        each = np.bincount(class_of) / np.bincount(up)[lies]
        pairs = np.bincount(lies, minlength=int(up.max()) + 1)[up].sum()
        if len(kinds) != pairs or (count != each[kinds % len(first_places)]).any() or (np.diff(lies) < 0).any():
            raise PlanError(
                "place-classes-differ",
                "In the plan, places of one class contain different places or lie in places of different classes, or "
                "the classes are not in the order of those above.",
                "",
                "Use the plan as fitnoise wrote it, or plan again.",
                "Nothing was measured.",
            )
        above.append(lies)
        copies.append(each)
    return TreeQuotient(tuple(above), tuple(copies), strategy.classes)


@final
class PlaceCodec(TreeCodec):
    """Strategies of noise scales by class of place."""

    def check(self, part: TablePart) -> None:
        """Raise PlanError unless the tables are by levels of a tree, and the strategy measures their sectors."""
        if level_obstacle(part.publication) is not None or not isinstance(part.strategy, TreeStrategy):
            raise PlanError(
                "places-without-tree",
                "The plan states that it is by place, and its publication or its strategy is not.",
                "It needs a strategy by place, goal fit-for-use, no cell budgets, and one hierarchy whose places "
                "differ in their numbers of places or in their targets.",
                "Use the plan as fitnoise wrote it, or plan again.",
                "Nothing was measured.",
            )
        d, strategy = part.decomposition, part.strategy
        level_problem = problem(part.publication, d)
        levels = [int(np.flatnonzero(level_problem.axes == level)[0]) for level in range(1, len(level_problem.sizes))]
        same = list(strategy.levels) == levels and all(map(np.array_equal, strategy.above, level_problem.above))
        if strategy.structure != d.cell_structure or not same:
            raise PlanError(
                "strategy-of-other-places",
                "The strategy of the plan measures other places than those of the tables.",
                "",
                "Use the plan as fitnoise wrote it, or plan again.",
                "Nothing was measured.",
            )
        needed = {outer_set: level_problem.sectors[i].deep for outer_set, i in level_problem.homes.items()}
        if {g.attributes: g.deep for g in strategy.groups} != needed:
            raise other_sectors()
        _ = classes(strategy)

    def decomposition(self, part: TablePart) -> Decomposition:
        """Return the workload in sectors, with every level as an attribute of its own."""
        return decompose(part.publication.workload, by_level=True)

    write = staticmethod(trees_document)
    read = staticmethod(read_trees)


@final
class PlaceErrors(TreeErrors):
    """The errors of tables with noise scales by class of place."""

    def estimation(self) -> TreeEstimation:
        """Return the estimation of every sector from the answers of all levels."""
        return PlaceEstimation(*self.block_parts(problem))


@final
class PlaceDescriptions(GaussianDescriptions):
    """The descriptions of noise scales by class of place."""

    equal_cost = Message("report.profile.as_costliest_place")

    def noise_scales(self) -> Iterator[tuple[list[Any], Indices, Floats]]:
        """Yield the attributes, the numbers of answers and the noise scales of each measured tree."""
        strategy = self.part.strategy
        names = strategy.structure.names
        for g, counts in zip(strategy.groups, strategy.counts, strict=True):
            levels = [names[strategy.levels[x - 1]] for x in g.scales if x]
            yield [*(names[a] for a in g.attributes), *levels], counts, np.concatenate(list(g.scales.values()))


PLACES = TableMechanism(
    "fit-for-use-by-place", PlaceCodec(), PlaceErrors, TreeProof, PlaceDescriptions, family="places and sectors"
)
