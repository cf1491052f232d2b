"""Define trees: measurements of nested places, with noise scales by class of place, and their price. Trust kernel.

A set T of attributes other than the places measures, at places g of some levels of a tree,

    m_T (⊗_{a∈T} H_a ⊗_{a∉T} 1ᵀ) ⊗ U_g x,    U_g = Σ k_h U_h over the places h right below g, U of a leaf its own count,

with independent discrete Gaussian noise of scale σ_Tg on every entry.

| symbol | meaning |
|---|---|
| x | counts of all joint cells |
| m_T, k | integers; k is the same for all places of a class |
| H_a | n_a I − J (for n_a = 2 the row (1, −1)) |
| σ_Tg | noise scale, the same for all places of a class |

The leaves of T are the places of the deepest level that T measures. The tree in the strategy gives all sums of their
counts. Sets of different deepest levels are priced together: a record lies in a leaf of each. `Order` compares this
nesting with its domain (`nested`). A record of leaf i moves U_g by the product of k from i up to below g, and costs

    prof(i) = Σ_T h_T y_T(i),    h_T = m_T² Π_{a∈T} n_a (n_a − 1) (1 for n_a = 2),
    y_T(g) = 1/σ_Tg² + k_g² y_T(place above g).

1/σ² is 0 where nothing is measured. y depends on the class of a place alone, as the class determines the class of the
place above. No result of an optimiser enters.

**Replaced.** Records of leaves i and j that meet in g differ in T by

    h_T [y_T(i) + y_T(j) − 2 χ_T U_g(i) U_g(j) y_T(g)],    χ_T = Π_{a∈T} (1 where they agree, else −1/(n_a − 1)).

As 2 U_g(i) U_g(j) ≤ U_g(i)² + U_g(j)², the last term is at most |χ_T| (U_g(i)² + U_g(j)²) y_T(g) where χ_T < 0. Let V_g
be the least U_g. No U_g is less than V_g, so elsewhere the term is at most −χ_T (U_g(i) + U_g(j)) V_g y_T(g). So the
distance is at most the sum over T below for i, plus that for j. Let D be the attributes in which the records differ.
Let g be the place of i of level m. If T's deepest level is above m, g is the place of that level (then U and V are 1):

    Δ² ≤ 2 max_{D, m, i} Σ_T h_T [y_T(i) − χ_T U_g(i) (U_g(i) where χ_T < 0, V_g elsewhere) y_T(g)].

A negative χ_T is at least −1/(n_T − 1), n_T the least n_a of T, and U_g(i)² y_T(g) ≤ y_T(i). If there are many D, the
module only uses

    Δ² ≤ 2 max_i Σ_T h_T y_T(i) n_T/(n_T − 1),    that factor 1 for T of no attributes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from fitnoise.errors import PlanError
from fitnoise.kernel.arrays import Exact, Floats, Indices, read_only
from fitnoise.kernel.designs._base import (
    INT64_SAFE_BOUND,
    Answers,
    CellStructure,
    Counts,
    Margin,
    attributes_not_increasing,
    measured_twice,
    noise_out_of_range,
)
from fitnoise.kernel.designs.linear import MAX_SCALE, GaussianDesign, axis_rows, centre, centre_dot, exact_precisions
from fitnoise.kernel.designs.query_blocks import INT64_SAFE_LIMIT, refuse_amounts
from fitnoise.kernel.immutable import FixedMapping
from fitnoise.kernel.units import Adjacency, Neighbours

MAX_MEETINGS = 2**24
"""The largest number of cases for which records that are replaced are examined one by one, in seconds.

A case is a set of differing attributes, a level, a measured set and a class of leaves.
"""


@final
@dataclass(frozen=True, eq=False)
class MeasuredTree:
    """The measurement of places for one set of further attributes.

    Attributes:
        attributes: The positions of the further attributes among all, increasing.
        multiple: m_T ≥ 1, the integer that multiplies all counts, below 2⁶².
        factors: k, from 1 to below 2⁶²: one int64 array for each level from the one below the top to the deepest. An
            array has one number for each class of places.
        scales: σ > 0 by the number of each measured level, in order from 0, the top: one float array with a number for
            each class. The deepest level, len(factors), is measured.

    Raises:
        PlanError: A field has another form, or the exact sampler cannot draw a scale.
    """

    attributes: tuple[int, ...]
    multiple: int
    factors: tuple[NDArray[np.int64], ...]
    scales: Mapping[int, NDArray[np.float64]]

    def __post_init__(self) -> None:
        for x in (*self.factors, *self.scales.values()):
            if x.ndim != 1:
                raise PlanError(
                    "tree-numbers-not-by-class",
                    "The factors or the noise of a tree are not lists.",
                    "A tree has one number for each class of places on a level.",
                    "Give one list for each level.",
                    "No strategy was made.",
                )
        factors, scales = tuple(map(read_only, self.factors)), {a: read_only(x) for a, x in self.scales.items()}
        object.__setattr__(self, "factors", factors)
        object.__setattr__(self, "scales", FixedMapping(scales))
        is_integer = type(self.multiple) is int and all(x.dtype == np.int64 for x in factors)
        if (
            not is_integer
            or not 0 < self.multiple < INT64_SAFE_LIMIT
            or any(((x < 1) | (x >= INT64_SAFE_LIMIT)).any() for x in factors)
        ):
            raise PlanError(
                "tree-factors-out-of-range",
                "The multiple or a factor of a tree is out of range.",
                "The multiple and the factors are whole numbers from 1, of at most 62 bits.",
                "Give such numbers.",
                "No strategy was made.",
            )
        if list(scales) != sorted(scales) or list(scales)[-1:] != [self.deep] or min(scales) < 0:
            raise PlanError(
                "tree-levels-not-in-order",
                "The measured levels of a tree are not in order, or the deepest level is not among them.",
                "",
                "Name the measured levels from the top down, ending with the deepest level.",
                "No strategy was made.",
            )
        good = all(x.dtype == np.float64 and ((x > 0) & (x <= MAX_SCALE)).all() for x in scales.values())
        if not good:  # also refuses NaN
            raise noise_out_of_range("tree")
        if list(self.attributes) != sorted(set(self.attributes)):
            raise attributes_not_increasing("tree")

    @property
    def deep(self) -> int:
        """The deepest level."""
        return len(self.factors)


@final
@dataclass(frozen=True, eq=False)
class TreeStrategy(GaussianDesign):
    """All measurements of nested places together.

    Attributes:
        structure: The attributes; each level of places is an attribute.
        levels: The positions of the levels among these, from the top down.
        above: For each level an array with the place above every place, not decreasing. Above the first level there is
            one place, the top.
        classes: For the top and for each level an array with the class of every place, from 0.
        groups: The measurements by further attributes, at least one, no set of attributes twice.

    Raises:
        PlanError: There is an amount or a structured attribute, or a field does not fit the others. Or places of one
            class lie in places of different classes.

    **Guarantees**
        * `max_record_cost` is the largest squared column norm of the dense integer strategy divided by σ², exactly.
          With more than EXACT_SCALES different scales it is an upper bound, less than one part in 2⁸⁰ above.
        * `cost_squared` is at least the largest squared distance, in units of the noise, by which one neighbouring pair
          can move the answers. It is exactly that where neighbours add or remove a record.
    """

    structure: CellStructure
    levels: tuple[int, ...]
    above: tuple[Indices, ...]
    classes: tuple[Indices, ...]
    groups: tuple[MeasuredTree, ...]

    def __post_init__(self) -> None:
        refuse_amounts(self.structure)
        if not self.groups:
            raise PlanError(
                "tree-empty",
                "The strategy measures nothing of its tree.",
                "A strategy that measures nothing has no price.",
                "Measure at least one level of the tree.",
                "No strategy was made.",
            )
        object.__setattr__(self, "above", tuple(map(read_only, self.above)))
        object.__setattr__(self, "classes", tuple(map(read_only, self.classes)))
        inside = all(0 <= a < len(self.structure.sizes) for a in self.levels) and not self.structure.structured
        if not inside or not len(set(self.levels)) == len(self.levels) == len(self.above) == len(self.classes) - 1:
            raise PlanError(
                "tree-misfits-domain",
                "The levels of a tree do not fit its domain.",
                "Each level is one exchangeable attribute of the domain, with its classes and the places above its "
                "own.",
                "Make the strategy for this domain.",
                "No strategy was made.",
            )
        sizes = (1, *(self.structure.sizes[a] for a in self.levels))
        for n, ids in zip(sizes, self.classes, strict=True):
            if ids.dtype != np.intp or ids.shape != (n,) or len(np.unique(ids)) != ids.max() + 1 or ids.min() < 0:
                raise PlanError(
                    "tree-classes-out-of-range",
                    "The classes of the places of a tree are not numbered from 0 without a gap.",
                    "Each place has one class.",
                    "Number the classes from 0, one number for each place.",
                    "No strategy was made.",
                )
        for parents, n, lies in zip(sizes, sizes[1:], self.above, strict=False):
            fits = lies.dtype == np.intp and lies.shape == (n,) and lies[0] == 0 and lies[-1] == parents - 1
            if not fits or not np.isin(np.diff(lies), (0, 1)).all():
                raise PlanError(
                    "tree-places-not-in-order",
                    "The places of a tree are not in the order of the places above them, or a place has none below it.",
                    "",
                    "List the places in the order of the places above them, at least one in each.",
                    "No strategy was made.",
                )
        for above, up, ids, lies in zip(self._above, self.classes, self.classes[1:], self.above, strict=False):
            if (above[ids] != up[lies]).any():
                raise PlanError(
                    "tree-class-in-several-classes",
                    "Places of one class of a tree lie in places of different classes.",
                    "",
                    "Give them different classes, or give the places above them one class.",
                    "No strategy was made.",
                )
        # From here on each class of places has one class above it, so `_above` is right for all places of a class.
        for g in self.groups:
            self._check(g)
        if len({g.attributes for g in self.groups}) < len(self.groups):
            raise measured_twice("tree and its set of further attributes")

    def _check(self, g: MeasuredTree) -> None:
        inside = all(0 <= a < len(self.sizes) and a not in self.levels and self.sizes[a] > 1 for a in g.attributes)
        fits = g.deep <= len(self.levels) and all(len(x) == self._kinds[i] for i, x in enumerate(g.factors, 1))
        if not (inside and fits and all(len(x) == self._kinds[level] for level, x in g.scales.items())):
            raise PlanError(
                "tree-group-misfits-places",
                "A group of a tree does not fit its places or its further attributes.",
                "Each level has one number for each class, and each further attribute has at least two values and "
                "is no level.",
                "Make the strategy for this domain.",
                "No strategy was made.",
            )

    @cached_property
    def _kinds(self) -> list[int]:
        """The number of classes of each level."""
        return [int(ids.max()) + 1 for ids in self.classes]

    @cached_property
    def _above(self) -> list[Indices]:
        """The class of the place above the first place of every class, by level below the top."""
        out = []
        for up, ids, parents in zip(self.classes, self.classes[1:], self.above, strict=False):
            out.append(up[parents[np.unique(ids, return_index=True)[1]]])
        return out

    def rows(self, g: MeasuredTree) -> int:
        """Return the number of answers of a group for each place."""
        return math.prod(axis_rows(self.sizes[a]) for a in g.attributes)

    @cached_property
    def orders(self) -> tuple[Indices, ...]:
        """The places of every level sorted by class, the order of their answers."""
        return tuple(np.argsort(ids, kind="stable") for ids in self.classes)

    @cached_property
    def counts(self) -> tuple[NDArray[np.int64], ...]:
        """The number of answers of each class of places, by group, level by level from the top."""
        each = [np.bincount(ids) for ids in self.classes]
        return tuple(self.rows(g) * np.concatenate([each[level] for level in g.scales]) for g in self.groups)

    @cached_property
    def _scales(self) -> tuple[Floats, ...]:
        return tuple(np.concatenate(list(g.scales.values())) for g in self.groups)

    @property
    def runs(self) -> list[tuple[Floats, NDArray[np.int64]]]:
        """The scale σ of each class, by group and level, with its number of answers."""
        return list(zip(self._scales, self.counts, strict=True))

    def _weight(self, g: MeasuredTree, *, replaced: bool) -> int:
        """Return h_T, times n_T/(n_T − 1) for records that are replaced."""
        sizes = [self.sizes[a] for a in g.attributes]
        out = g.multiple**2 * math.prod(centre_dot(n, equal=True) for n in sizes)
        if replaced and sizes:
            out = out // (min(sizes) - 1) * min(sizes)  # h_T holds n_T − 1, of two values 1
        return out

    @cached_property
    def _deepest(self) -> int:
        """The deepest level that any group measures; its places are the leaves."""
        return max(g.deep for g in self.groups)

    @cached_property
    def _charged(self) -> tuple[int, list[list[Exact]]]:
        """A unit, and y_T of every class of places as integers in this unit, by group and level down to its deepest."""
        unit, precisions = exact_precisions(self._scales)
        out = list[list[Exact]]()
        for g, p in zip(self.groups, precisions, strict=True):
            by_level = dict(
                zip(g.scales, np.split(p, np.cumsum([len(x) for x in g.scales.values()])[:-1]), strict=True)
            )
            y = [by_level.get(0, np.array([0], dtype=object))]
            for level, k in enumerate(g.factors, 1):
                # y_T(g) = 1/σ_Tg² + k_g² y_T(place above g), where 1/σ² is 0 if nothing is measured.
                y.append(y[-1][self._above[level - 1]] * k.astype(object) ** 2 + by_level.get(level, 0))
            out.append(y)
        return unit, out

    def _carried(self, values: Exact, level: int, factors: Sequence[Exact] = ()) -> Exact:
        """Return the value of each leaf class: that of its place of a level, times the factors from there down.

        Args:
            values: One number for each class of places of the level.
            level: The level, from 0 for the top.
            factors: One array for each level below the top, as in `MeasuredTree`; beyond their end, factors are 1.
        """
        for below in range(level, self._deepest):
            values = values[self._above[below]]
            if below < len(factors):
                values = values * factors[below]
        return values

    @cached_property
    def _prices(self) -> tuple[int, list[Exact]]:
        """A unit, and y_T as integers in this unit, by group and class of leaves."""
        unit, charged = self._charged
        return unit, [self._carried(y[-1], g.deep) for g, y in zip(self.groups, charged, strict=True)]

    def _largest(self, *, replaced: bool) -> Fraction:
        unit, prices = self._prices
        each = [self._weight(g, replaced=replaced) * y for g, y in zip(self.groups, prices, strict=True)]
        return Fraction(int(sum(each[1:], start=each[0]).max()), unit)

    @cached_property
    def max_record_cost(self) -> Fraction:
        """The squared cost max_i prof(i) of a record of the costliest place."""
        return self._largest(replaced=False)

    @cached_property
    def group_costs(self) -> tuple[Fraction, ...]:
        """The squared cost of each group for a record of the place where it is largest."""
        unit, prices = self._prices
        pairs = zip(self.groups, prices, strict=True)
        return tuple(Fraction(self._weight(g, replaced=False) * int(y.max()), unit) for g, y in pairs)

    def profile(self) -> tuple[Fraction, ...]:
        """Return one number, the squared cost of the costliest place."""
        return (self.max_record_cost,)

    def cost_squared(self, neighbours: Neighbours) -> Fraction:
        """Return Δ² for neighbours that differ in one record: exact, or the bound for replaced records."""
        if neighbours is Neighbours.ADD_OR_REMOVE_ONE:
            return self.max_record_cost
        return 2 * min(self._largest(replaced=True), self._where_they_meet)

    @cached_property
    def _where_they_meet(self) -> Fraction:
        """Half of the first bound for replaced records in the module head, or of the second to save time."""
        used = sorted({a for g in self.groups for a in g.attributes})
        levels, leaves = range(self._deepest + 1), len(self._prices[1][0])
        if (len(levels) * len(self.groups) * leaves) << len(used) > MAX_MEETINGS:
            # There are too many D to look at each. The second bound holds for all of them.
            return self._largest(replaced=True)
        unit, charged = self._charged
        shared = [self._shared(g, y) for g, y in zip(self.groups, charged, strict=True)]
        best = 0
        for differing in itertools.chain.from_iterable(itertools.combinations(used, n) for n in range(len(used) + 1)):
            kinds = [[self.sizes[a] - 1 for a in g.attributes if a in differing] for g in self.groups]
            for level in levels:
                total = np.zeros(leaves, dtype=object)
                for g, parts, factors in zip(self.groups, shared, kinds, strict=True):
                    # χ_T is negative for an odd number of differing attributes. Then U² bounds the term, and elsewhere
                    # U V does.
                    added, less = parts[min(level, g.deep)]
                    times = math.prod(factors)  # h_T contains it, so these are integers.
                    total = total + parts[-1][0] + (added // times if len(factors) % 2 else -(less // times))
                best = max(best, int(total.max()))
        return Fraction(best, unit)

    def _shared(self, g: MeasuredTree, y: Sequence[Exact]) -> list[tuple[Exact, Exact]]:
        """Return h_T U_g(i)² y_T(g) and h_T U_g(i) V_g y_T(g) of every leaf class i and its place g of a level.

        Args:
            g: The group, which measures the set T.
            y: y_T of every class of places, by level down to the deepest of the group.

        Returns:
            One pair of arrays for each of these levels, from the top down.
        """
        weight, k = self._weight(g, replaced=False), [x.astype(object) for x in g.factors]
        min_factors = [np.ones(len(y[-1]), dtype=object)]
        for level in range(g.deep, 0, -1):
            products = k[level - 1] * min_factors[0]
            # V: the least product of factors from a place of the class down to a leaf.
            minima = np.full(len(y[level - 1]), products.max(), dtype=object)
            np.minimum.at(minima, self._above[level - 1], products)
            min_factors.insert(0, minima)
        squares, out = [x**2 for x in k], []
        for level, (charged, v) in enumerate(zip(y, min_factors, strict=True)):
            out.append((self._carried(weight * charged, level, squares), self._carried(weight * charged * v, level, k)))
        return out

    # --- as a design ------------------------------------------------------------------------------------

    def scaled_by(self, parts: int) -> TreeStrategy:
        """Return the strategy with `parts` times the noise: squared distances are convex, as in `sectors`."""
        finer = ({level: x * parts for level, x in g.scales.items()} for g in self.groups)
        return replace(self, groups=tuple(replace(g, scales=x) for g, x in zip(self.groups, finer, strict=True)))

    def _margin(self, g: MeasuredTree) -> Margin:
        return tuple(self.structure.names[a] for a in (*g.attributes, *self.levels[: g.deep][-1:]))

    @property
    def nested(self) -> list[tuple[str, str, Indices]]:
        """The nesting of every level except the first in the level above it."""
        names = [self.structure.names[a] for a in self.levels]
        return [(up, low, places) for up, low, places in zip(names, names[1:], self.above[1:], strict=False)]

    def margins(self) -> set[Margin]:
        """Return the attributes of each group, with the deepest level it measures."""
        return {self._margin(g) for g in self.groups}

    def exact_answers(self, counts: Counts, adjacency: Adjacency, records: int) -> Answers:
        """Return one array for each group: its exact answers by level from the top, and by class of places."""
        del adjacency  # The integers do not depend on the protected unit.
        return tuple(self._transformed(g, counts, records) for g in self.groups)

    def magnitude(self, records: int) -> int:
        """Return a bound on all exact answers, for at most `records` records."""
        return records * max(map(self._max_entry, self.groups), default=0)

    def _max_entry(self, g: MeasuredTree) -> int:
        # An entry of H_a is at most n_a − 1 in size, and 1 for n_a = 2: no query has a larger entry than this product.
        sizes = math.prod(max(self.sizes[a] - 1, 1) for a in g.attributes)
        return g.multiple * sizes * math.prod(int(x.max()) for x in g.factors)

    def _transformed(self, g: MeasuredTree, counts: Counts, records: int) -> Exact:
        """Return exact integers, modulo 2⁶⁴ where the factors and the public bound on records allow int64."""
        sizes, wide = [self.sizes[a] for a in g.attributes], records * self._max_entry(g) >= INT64_SAFE_BOUND
        dtype: np.dtype[Any] = np.dtype(object) if wide else np.dtype(np.int64)
        values = np.asarray(counts[self._margin(g)]).astype(dtype).reshape(*sizes, -1)
        for axis in range(len(sizes)):
            values = centre(values, axis)
        values = g.multiple * values.reshape(-1, values.shape[-1]).T
        out: list[Exact] = []
        for level in range(g.deep, -1, -1):
            if level in g.scales:
                out.insert(0, values[self.orders[level]].ravel())
            if level:
                # Places are in the order of the places above them, so each sum is over consecutive rows.
                starts = np.unique(self.above[level - 1], return_index=True)[1]
                values = values * g.factors[level - 1].astype(dtype)[self.classes[level]][:, None]
                values = np.add.reduceat(values, starts)
        return np.concatenate(out)

    def ledger_rows(self) -> list[tuple[int, list[int]]]:
        """Return the number of measured classes of each group, with the positions of its attributes and levels."""
        levels = ([self.levels[x - 1] for x in g.scales if x] for g in self.groups)
        pairs = zip(self.groups, self._scales, levels, strict=True)
        return [(len(scales), [*g.attributes, *level_attributes]) for g, scales, level_attributes in pairs]
