"""Many joint cells of several structured attributes, in product form: integers, estimates and errors axis by axis.

**Symbols.** `solving/product_form.py` lists T, H_a and w_a. R_a is the view of attribute a in the table. y_T are the
noisy answers of sector T, with noise of scale σ_T.

**Statement.** The matrix [1ᵀ; H_a] is inverted as [w_a, H_a^#], from the integers themselves. Then a table t is

    Σ_{T⊆t} (⊗_{a∈T} R_a H_a^# ⊗_{a∈t∖T} R_a w_a) y_T,
    var = Σ_T σ_T² Π_{a∈T} ‖row of R_a H_a^#‖² Π_{a∈t∖T} (R_a w_a)².

So estimates are unbiased for any integers H_a, and two tables agree on their common margins. Work and memory are those
of the largest table.

**Trust.** This module is untrusted: a mistake here costs accuracy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast, final

import numpy as np

from fitnoise.algebra import rules
from fitnoise.algebra.operators import Operator
from fitnoise.errors import PlanError, SingularStrategy, WorkloadError
from fitnoise.kernel.arrays import Exact, Floats, Indices
from fitnoise.kernel.designs._base import NUMBERS_PER_BATCH, CellStructure
from fitnoise.kernel.designs.linear import MAX_SCALE
from fitnoise.kernel.designs.products import Factor, ProductGroup, ProductStrategy
from fitnoise.kernel.units import Neighbours
from fitnoise.mechanisms._base import Codec, TableMechanism
from fitnoise.mechanisms.documents import products_document, read_products
from fitnoise.mechanisms.estimation import SectorIndex
from fitnoise.mechanisms.gaussian.estimate import uncentre
from fitnoise.mechanisms.gaussian.mechanism import BlockErrors, GaussianDescriptions, GaussianProof, other_sectors
from fitnoise.mechanisms.gaussian.rounding import out_of_reach, rescaled_block
from fitnoise.mechanisms.numbers import SUM_OF_ALL, TableNumbers, WeightedSums, agreement, dots, mean_weight, with_sums
from fitnoise.mechanisms.terms import target_ratios, terms
from fitnoise.messages import Message, Value, ValueKind, english
from fitnoise.request.publication import Goal, Publication
from fitnoise.request.workloads import (
    Table,
    Workload,
    axes_with_impossible_rows,
    exchangeable_attributes,
    used_attributes,
)
from fitnoise.solving import cores, product_form
from fitnoise.solving.certificates import Certificate
from fitnoise.solving.joint_bases import RealJointStrategy
from fitnoise.solving.product_form import ProductProblem, RealProductStrategy
from fitnoise.solving.sectors import MAX_STRUCTURED_CELLS, Decomposition, decompose_by_axis, ways_out

if TYPE_CHECKING:
    from fitnoise.mechanisms.tables import TablePart

MAX_VALUES = 2_000
"""The largest number of values of a structured attribute: every step decomposes matrices with one row and column for
each value."""

MAX_TABLES = 20_000
"""The largest number of tables, since each is processed by itself."""

MAX_COUNTS = 2**26
"""The largest number of counts of one table, since all are held in memory."""

CONDITION = 1e10
"""Condition number of a factor's integers above which doubles do not invert them accurately enough."""


def joint_cells(request: Publication) -> int:
    """Return the number of joint cells of the structured attributes if there are several, and 1 otherwise."""
    bound = exchangeable_attributes(request.workload, request.structured_attributes)[1]
    sizes = request.workload.domain.sizes
    return math.prod(sizes[a] for a in bound) if len(bound) > 1 else 1


def obstacle(request: Publication) -> Message | None:
    """Return the reason against a plan in product form, as a clause; None if it is possible."""
    templates = _templates(request.workload)
    varying = [t.name for t in templates if t.target.attribute is not None]
    reasons = (
        (request.objective.goal is Goal.HYBRID, "report.unsuitable.hybrid"),
        (request.cell_budgets is not None, "report.unsuitable.cell_budgets"),
        (bool(request.adjacency.pattern), "report.unsuitable.pattern"),
        (any(t.matrix is not None for t in templates), "report.unsuitable.matrix"),
        (
            bool(set(request.workload.domain.steps) & used_attributes(request.workload)),
            "report.unsuitable.amounts",
        ),
        (any(axes_with_impossible_rows(request.workload)), "report.unsuitable.impossible_rows"),
        (bool(varying) and request.objective.goal is not Goal.FIT_FOR_USE, "report.unsuitable.varying_targets"),
    )
    text_id = next((text_id for there, text_id in reasons if there), None)
    if text_id is None:
        return _too_large(request.workload)
    return Message(text_id, tuple(Value("table", name, ValueKind.CODE) for name in varying[:1]))


def _too_large(workload: Workload) -> Message | None:
    """Return the size that exceeds the limits of product form, as a clause; None if none does."""

    def above(text_id: str, size: int, limit: int, **names: str) -> Message:
        counts = (Value("size", size, ValueKind.COUNT), Value("limit", limit, ValueKind.COUNT))
        return Message(text_id, (*counts, *(Value(key, name, ValueKind.CODE) for key, name in names.items())))

    domain = workload.domain
    for a in exchangeable_attributes(workload)[1]:
        if domain.sizes[a] > MAX_VALUES:
            return above("report.unsuitable.values", domain.sizes[a], MAX_VALUES, attribute=a)
    if len(workload.tables) > MAX_TABLES:
        return above("report.unsuitable.tables", len(workload.tables), MAX_TABLES)
    for t in workload.tables:
        held = max(math.prod(domain[a].size for a in t.attributes), math.prod(t.shape(domain)))
        if held > MAX_COUNTS:
            return above("report.unsuitable.counts", held, MAX_COUNTS, table=t.name)
    return None


def refuse_wide(request: Publication) -> None:
    """Raise WorkloadError for joint cells that are too many for a joint plan, if product form is not possible."""
    cells = joint_cells(request)
    why = obstacle(request) if cells > MAX_STRUCTURED_CELLS else None
    if why is not None:
        bound = exchangeable_attributes(request.workload, request.structured_attributes)[1]
        ways = ways_out(request.workload.domain, bound).strip()
        raise WorkloadError(
            "too-many-joint-cells",
            f"Ranges, groups, per-value targets or a matrix give the attributes {bound} {cells:,} joint "
            f"cells, above the limit of {MAX_STRUCTURED_CELLS:,}.",
            f"Product form has no such limit, but is not possible because {english(why)}.",
            "Coarsen an attribute, show it value by value with one target, or remove this "
            f"obstacle.{ways and ' ' + ways}",
            "Nothing was planned.",
        )


def problem(request: Publication, decomposition: Decomposition) -> ProductProblem:
    """Return the tables by axis: the problem to solve, with its proof of a bound."""
    replaced = request.adjacency.step_relations == (Neighbours.REPLACE_ONE,)
    looser = _looser(request.workload, decomposition)
    return ProductProblem.from_decomposition(
        decomposition, terms(request, decomposition).weights, looser, replaced=replaced
    )


def _looser(workload: Workload, decomposition: Decomposition) -> dict[int, tuple[int, Floats]]:
    """Return, for tables with varying targets, the axis of variation and the ratios to the tightest target."""
    out: dict[int, tuple[int, Floats]] = {}
    if all(t.target.attribute is None for t in _templates(workload)):
        return out
    for group in decomposition.tables:
        places = np.cumsum([0, *group.spans])
        for number in group.tables.tolist():
            varying = target_ratios(workload, workload.tables[number])
            if varying is not None:
                out[number] = int(places[varying[0]]), varying[1]
    return out


def _templates(workload: Workload) -> list[Table]:
    return [p if isinstance(p, Table) else p.template for p in workload.tables.parts]


@final
@dataclass(frozen=True, eq=False)
class FactorInverse:
    """The inverse [w, H^#] of [1ᵀ; H], for a factor H with k rows, so H H^# = I.

    w: A vector with H w = 0 that sums to 1, (n,); 0 for an attribute that all tables show.
    sharp: H^#, (n, k).
    """

    w: Floats
    sharp: Floats

    @classmethod
    def from_integers(cls, rows: Floats, merged: Indices, *, always: bool) -> FactorInverse:
        """Return the inverse of a factor's integers. The first of several merged values stands for all of them.

        merged: The class of every value, (n,).
        always: True for an attribute that all tables show, so that w is 0.

        Raises:
            SingularStrategy: The integers cannot be inverted.
        """
        first_values = np.unique(merged, return_index=True)[1]
        # Large integers next to the row of ones would alone give a large condition number.
        distinct_rows = rows[:, first_values] / np.abs(rows).max()
        # If all tables show the attribute, no sum over its values is estimated: the row of ones is left out.
        square = distinct_rows if always else np.vstack([np.ones(len(first_values)), distinct_rows])
        if square.shape[0] != square.shape[1] or not np.linalg.cond(square) < CONDITION:
            raise SingularStrategy(
                "singular-product-factor",
                "A factor of the plan is singular.",
                "Its answers cannot be rebuilt.",
                "Use the plan as fitnoise wrote it, or plan again.",
                "Nothing was rebuilt.",
            )
        inverse = np.zeros((len(merged), len(first_values)))
        inverse[first_values] = np.linalg.inv(square)
        w = np.zeros(len(merged)) if always else inverse[:, 0]
        return cls(w, inverse[:, 0 if always else 1 :] / np.abs(rows).max())


@final
@dataclass(frozen=True, eq=False)
class _AxisRows:
    """P numbers along an axis of their table: their rows, w of each (P,), and H^# of all rows if it exists."""

    positions: Indices
    weight: Floats
    sharp: Floats | None

    @property
    def rows(self) -> Floats:
        """H^# of all rows, of an attribute with a factor."""
        return cast(Floats, self.sharp)


@final
@dataclass(frozen=True, eq=False)
class ProductEstimation:
    """The estimation of every sector from its own answers, axis by axis.

    problem: The tables.
    strategy: The measured strategy.
    decomposition: The workload in sectors, by axis.
    """

    problem: ProductProblem
    strategy: ProductStrategy
    decomposition: Decomposition

    @property
    def lengths(self) -> tuple[int, ...]:
        """The number of noisy answers of each group of sectors."""
        return self.strategy.lengths

    @property
    def whiteners(self) -> list[Floats]:
        """Noise scales before factors are inverted, (K, 1, 1) by group; the largest one if they vary with the rows."""
        return [
            np.sqrt([[[self.noise[tuple(attributes)].max()]] for attributes in g.attributes.tolist()]).reshape(-1, 1, 1)
            for g in self.strategy.groups
        ]

    @cached_property
    def inverses(self) -> dict[int, FactorInverse]:
        """Inverses of the factors of all axes that have one."""
        cache: dict[bytes, FactorInverse] = {}
        out = {}
        for kind in self.problem.kinds:
            for a in kind.axes:
                rows = self.strategy.factors[a].rows
                if rows is not None:
                    # Attributes of one kind have equal factors, so each factor is inverted once.
                    key = rows.tobytes() + kind.merged.tobytes()
                    if key not in cache:
                        cache[key] = FactorInverse.from_integers(
                            rows.astype(np.float64), kind.merged, always=kind.always
                        )
                    out[a] = cache[key]
        return out

    @cached_property
    def noise(self) -> dict[tuple[int, ...], Floats]:
        """(σ_T/m_T)² by set of attributes; along each, one value for each row, or one value if all are equal."""
        scales_by_group = self.strategy.by_set([g.scales for g in self.strategy.groups])
        return {
            tuple(attributes): np.square(s / m)
            for g, scales in zip(self.strategy.groups, scales_by_group, strict=True)
            for attributes, s, m in zip(g.attributes.tolist(), scales, g.multiples.tolist(), strict=True)
        }

    def value_weights(self, axis: int) -> Floats:
        """Return w of the factor of an attribute, or 1/n for each value of an attribute without a factor."""
        n = self.strategy.sizes[axis]
        return self.inverses[axis].w if axis in self.inverses else np.full(n, 1 / n)

    def estimates(self, answers: Sequence[Exact], group: int, sectors: Indices) -> Floats:
        """Return θ_T of some sectors of a group, all of the same sizes, (K, n_a for a in T…, 1)."""
        g, counts = self.strategy.groups[group], self.strategy.counts[group]
        starts = np.cumsum(counts) - counts
        out = []
        for k in sectors.tolist():
            shape = self.strategy.shapes[group][k]
            y = answers[group][starts[k] : starts[k] + counts[k]].astype(np.float64).reshape(shape)
            y = y / float(g.multiples[k])
            for axis, a in enumerate(g.attributes[k].tolist()):
                if a in self.inverses:
                    y = np.moveaxis(np.tensordot(self.inverses[a].sharp, y, (1, axis)), 0, axis)
                else:
                    y = uncentre(y, axis, self.strategy.sizes[a])
            out.append(y[..., None])
        return np.stack(out)

    def covariance(self, f: Mapping[SectorIndex, Floats], h: Mapping[SectorIndex, Floats]) -> float:
        """Return the covariance of two combinations of sector estimates."""
        total = 0.0
        for sector, x in f.items():
            if sector in h:
                attributes = self.strategy.groups[sector[0]].attributes[sector[1]].tolist()
                one = self._measured(x[..., 0], attributes)
                other = one if h is f else self._measured(h[sector][..., 0], attributes)
                total += float((self.noise[tuple(attributes)] * one * other).sum())
        return total

    def apply_covariance(self, f: Mapping[SectorIndex, Floats]) -> dict[SectorIndex, Floats]:
        """Return cov(θ) f, the covariances of the estimates with Σ ⟨f_S, θ_S⟩, for the sectors in f; f_S is centred."""
        out = {}
        for sector, tensor in f.items():
            attributes, x = self.strategy.groups[sector[0]].attributes[sector[1]].tolist(), tensor[..., 0]
            factors = [(axis, self.inverses[a].sharp) for axis, a in enumerate(attributes) if a in self.inverses]
            for axis, a in enumerate(attributes):
                if a not in self.inverses:
                    n = self.strategy.sizes[a]
                    # H⁺(H⁺)ᵀ is the centring divided by g_a.
                    x = (x - x.mean(axis=axis, keepdims=True)) / (2 if n == 2 else n * n)
            for axis, sharp in factors:
                x = np.moveaxis(np.tensordot(sharp, x, (0, axis)), 0, axis)
            x = x * self.noise[tuple(attributes)]
            for axis, sharp in factors:
                x = np.moveaxis(np.tensordot(sharp, x, (1, axis)), 0, axis)
            out[sector] = x[..., None]
        return out

    def _measured(self, x: Floats, attributes: Sequence[int]) -> Floats:
        """Return (⊗ H_a^#)ᵀ x: a combination of estimates as one of answers."""
        for axis, a in enumerate(attributes):
            if a in self.inverses:
                x = np.moveaxis(np.tensordot(self.inverses[a].sharp, x, (0, axis)), 0, axis)
            else:
                n = self.strategy.sizes[a]  # the pseudoinverse of the centring is symmetric, except for two values
                one = x.take([0], axis)
                x = (one - x.take([1], axis)) / 2 if n == 2 else (x - x.mean(axis=axis, keepdims=True)) / n
        return x

    def rows(self, axis: int, view: Operator | None) -> tuple[Floats, Floats]:
        """Return v = ‖row of R H^#‖² and f² = (R w)² of every row of a view R along an axis."""
        n = self.strategy.sizes[axis]
        if axis not in self.inverses:  # the axis is shown value by value, or has one value
            gain = 2.0 if n == 2 else float(n * n)
            ones = np.ones(n if view is None else view.shape[0])
            return (1 - 1 / n) / gain * ones, ones / n**2
        squares, f = self._squares(axis, view)
        return squares.sum(axis=1), f

    def _squares(self, axis: int, view: Operator | None) -> tuple[Floats, Floats]:
        """Return the squares of R H^#, (P, k), and of f = R w, (P,), for a view R with P rows.

        The axis has a factor, with k rows.
        """
        inverse = self.inverses[axis]
        w, sharp = (inverse.w, inverse.sharp) if view is None else (view.mv(inverse.w), view.mv(inverse.sharp))
        return sharp**2, w**2

    def _relative(self, axis: int, view: int) -> tuple[Floats, Floats]:
        """Return `rows` of a view by its number, relative to targets that vary."""
        v, f = self.rows(axis, self.problem.operators[view])
        return v / self.problem.looser[view], f / self.problem.looser[view]

    def table_variances(self, axes: Sequence[int], views: Sequence[Operator | None]) -> Floats:
        """Return the variances of all numbers of a table, (rows along each of its axes…)."""
        masks = [m for m in product_form.subsets(len(axes)) if self._attribute_set(axes, m) in self.noise]
        parts = [self.rows(a, view) for a, view in zip(axes, views, strict=True)]
        if not self.strategy.joint:
            return product_form.variances(
                parts, masks, np.array([self.noise[self._attribute_set(axes, m)].item() for m in masks])
            )
        total = np.zeros([len(f) for _, f in parts])
        for mask in masks:
            # The axes of the noise follow the attributes, and those of the table its own order.
            order = sorted(mask, key=lambda i: axes[i])
            x = self.noise[self._attribute_set(axes, mask)]
            for axis, i in enumerate(order):
                v = parts[i][0][:, None] if x.shape[axis] == 1 else self._squares(axes[i], views[i])[0]
                x = np.moveaxis(np.tensordot(v, x, (1, axis)), 0, axis)
            x = x.transpose(np.argsort(order)).reshape([len(f) if i in mask else 1 for i, (_, f) in enumerate(parts)])
            for i in set(range(len(axes))) - set(mask):
                x = x * parts[i][1].reshape([-1 if i == j else 1 for j in range(len(axes))])
            total += x
        return total

    def sums(self, left_sums: WeightedSums, right_sums: WeightedSums, length: int) -> Floats | None:
        """Return None, so that the caller uses pairs: the strategy measures no common values."""
        del left_sums, right_sums, length
        return None

    def pair_covariances(self, left_numbers: TableNumbers, right_numbers: TableNumbers) -> Floats:
        """Return covariances of pairs of numbers, (P,): sums over sets of products along the axes."""
        mine, theirs = self._axis_rows(left_numbers), self._axis_rows(right_numbers)
        common = {a: self._product(a, mine[a], theirs[a]) for a in mine if a in theirs}
        total = np.zeros(len(left_numbers))
        for mask in product_form.subsets(len(common)):
            attributes = self._attribute_set(list(common), mask)
            if attributes in self.noise:
                noise = self.noise[attributes]
                rest = [axes[a].weight for axes in (mine, theirs) for a in axes if a not in attributes]
                # Along an axis of equal noise, the sum over the rows is the product of the two numbers' rows.
                fine = [a for a, n in zip(attributes, noise.shape, strict=True) if n > 1]
                uniform_products = [common[a] for a in attributes if a not in fine]
                pairs = self._varying(noise.reshape([n for n in noise.shape if n > 1]), fine, mine, theirs, len(total))
                total += math.prod([pairs, *uniform_products, *rest])
        return total

    @staticmethod
    def _varying(
        noise: Floats,
        attributes: Sequence[int],
        mine: Mapping[int, _AxisRows],
        theirs: Mapping[int, _AxisRows],
        count: int,
    ) -> Floats:
        """Return Σ_r noise(r) Π_a (product of the two numbers' entries at row r_a) for pairs, (P,), in batches."""
        out = np.full(count, noise if not attributes else 0.0)
        step = max(1, NUMBERS_PER_BATCH // max(noise.size, 1))
        for start in range(0, count if attributes else 0, step):
            here = slice(start, start + step)
            x: Floats = noise.reshape(1, *noise.shape)
            for a in reversed(attributes):
                one, other = mine[a], theirs[a]
                both = one.rows[one.positions[here]] * other.rows[other.positions[here]]
                x = np.einsum("p...k,pk->p...", np.broadcast_to(x, (len(both), *x.shape[1:])), both)
            out[here] = x
        return out

    def _axis_rows(self, numbers: TableNumbers) -> dict[int, _AxisRows]:
        """Return the rows of some numbers' table along its axes."""
        out = {}
        views = zip(numbers.axes.items(), numbers.group.views, strict=True)
        for (a, v), view in views:
            if a not in self.inverses:
                out[a] = _AxisRows(v, mean_weight(v, self.strategy.sizes[a]), None)
            else:
                w, sharp = self.inverses[a].w, self.inverses[a].sharp
                w, sharp = (w, sharp) if view is None else (view.mv(w), view.mv(sharp))
                rows = np.where(v == SUM_OF_ALL, len(w), v)
                out[a] = _AxisRows(rows, with_sums(w, 1)[rows], with_sums(sharp, 1))
        return out

    def _product(self, axis: int, left_rows: _AxisRows, right_rows: _AxisRows) -> Floats:
        if left_rows.sharp is None or right_rows.sharp is None:
            n = self.strategy.sizes[axis]
            return agreement(left_rows.positions, right_rows.positions, n) / (2.0 if n == 2 else float(n * n))
        return dots(left_rows.sharp, right_rows.sharp, left_rows.positions, right_rows.positions)

    @staticmethod
    def _attribute_set(axes: Sequence[int], mask: Sequence[int]) -> tuple[int, ...]:
        return tuple(sorted(axes[i] for i in mask))

    @property
    def variances(self) -> Floats:
        """The variance of the worst row of every table, (M,), over its target's ratio to the tightest one if they vary.

        It is the mean variance if the objective is the sum of all variances.
        """
        return self.worst if self.problem.shares is None else self.means

    @cached_property
    def worst(self) -> Floats:
        """The largest variance of every table, (M,)."""
        return self._of_tables(product_form.pareto_front, largest=True)

    @cached_property
    def means(self) -> Floats:
        """The mean variance of every table, (M,)."""
        return self._of_tables(lambda v, f: (v.mean(keepdims=True), f.mean(keepdims=True)), largest=False)

    def _of_table(self, axes: Sequence[int], slots: Sequence[tuple[int, int]]) -> Floats:
        """Return all variances of a table of a family, relative to targets that vary."""
        variances = self.table_variances(axes, [self.problem.operators[v] for _, v in slots])
        for i, (_, v) in enumerate(slots):
            variances = variances / self.problem.looser[v].reshape([-1 if i == j else 1 for j in range(len(slots))])
        return variances

    def _of_tables(self, select: Callable[[Floats, Floats], tuple[Floats, Floats]], *, largest: bool) -> Floats:
        """Return the largest variance of every table, over the rows that `select` keeps on each axis; or their mean."""
        out = np.empty(self.problem.tables)
        for f in self.problem.families:
            if self.strategy.joint:
                variances = [self._of_table(row, f.slots) for row in f.axes.tolist()]
                out[f.tables] = [x.max() if largest else x.mean() for x in variances]
                continue
            tops: dict[tuple[int, ...], list[int]] = {}
            for t, row in enumerate(f.axes.tolist()):  # attributes of a kind have one factor, except in altered plans
                tops.setdefault(tuple(id(self.inverses.get(a)) for a in row), []).append(t)
            for here in tops.values():
                row = f.axes[here[0]].tolist()
                # Variances rise with v and f² of each axis, so a row that another exceeds in both is never the worst.
                parts = [select(*self._relative(a, v)) for a, (_, v) in zip(row, f.slots, strict=True)]
                masks = [m for m in f.masks if self._attribute_set(row, m) in self.noise]
                keys = [[self._attribute_set(axes, m) for m in masks] for axes in f.axes[here].tolist()]
                noise = np.array([[self.noise[n].item() for n in names] for names in keys])
                distinct_noise, which = np.unique(noise, axis=0, return_inverse=True)
                out[f.tables[here]] = product_form.worst(parts, masks, distinct_noise)[which.ravel()]
        return out


def rounded(
    problem: ProductProblem, decomposition: Decomposition, strategy: RealProductStrategy | RealJointStrategy, bits: int
) -> ProductStrategy:
    """Return integers for a strategy in product form; the largest entry of each factor has `bits` bits.

    Joint bases have rows with scales of their own, so there `bits` applies to the largest entry of each row.

    Raises:
        PlanError: A scale is outside the range of the exact sampler.
    """
    factors: list[Factor] = [Factor(None)] * len(decomposition.sizes)
    # The factor by which the integers exceed the rows of the real strategy, and with them the noise; √g_a for a
    # centring.
    gains = [np.ones(1)] * len(decomposition.sizes)
    for i, (kind, w) in enumerate(zip(problem.kinds, strategy.w, strict=True)):
        n = kind.size
        for a in kind.axes:
            gains[a] = np.array([math.sqrt(2) if n == 2 else float(n)])
        if kind.is_exchangeable:
            continue
        contrasts = (kind.contrasts - w @ kind.contrasts).T
        if isinstance(strategy, RealJointStrategy):
            rows = np.linalg.solve(strategy.bases[i], contrasts)
            exponents = bits - np.frexp(np.abs(rows).max(axis=1, keepdims=True))[1]
        else:
            rows = np.asarray(np.linalg.qr(np.linalg.cholesky(np.linalg.inv(strategy.k[i])).T @ contrasts, mode="r"))
            exponents = bits - np.frexp(np.abs(rows).max(keepdims=True))[1]
        integers = np.rint(np.ldexp(rows, exponents)).astype(np.int64)
        factor = Factor(integers[:, kind.merged])
        for a in kind.axes:
            factors[a], gains[a] = factor, np.ldexp(1.0, exponents.ravel())
    groups = []
    for g in decomposition.groups:
        by_set = [
            (
                product_form.outer([gains[a] for a in attributes]) / np.sqrt(strategy.precisions[tuple(attributes)])
            ).ravel()
            for attributes in g.attributes.tolist()
        ]
        scales = np.concatenate([np.zeros(0), *by_set])
        if not (np.isfinite(scales) & (scales > 0) & (scales <= MAX_SCALE)).all():
            raise out_of_reach()
        groups.append(ProductGroup(g.attributes, np.ones(len(g), dtype=np.int64), scales))
    return ProductStrategy(decomposition.cell_structure, tuple(factors), tuple(groups))


def rescaled(strategy: ProductStrategy, factor: float, *, up: bool) -> ProductStrategy:
    """Multiply every σ by a factor, cut it to 32 bits (up or down), and multiply the queries so that 2¹⁰ ≤ σ.

    Raises:
        PlanError: A scale is outside the range of the exact sampler, or a multiple would have more than 61 bits.
    """
    groups = []
    for g, grids in zip(strategy.groups, strategy.grids, strict=True):
        counts = np.array([math.prod(grid) for grid in grids], dtype=np.int64)
        scales, multiples = rescaled_block(g.scales * factor, counts, g.multiples, up=up)
        groups.append(replace(g, multiples=multiples, scales=scales))
    return replace(strategy, groups=tuple(groups))


@final
class ProductCodec(Codec):
    """Strategies in product form."""

    def check(self, part: TablePart) -> None:
        """Raise PlanError unless the factors measure the sets that the tables need."""
        why = obstacle(part.publication)
        if not isinstance(part.strategy, ProductStrategy) or why is not None:
            raise PlanError(
                "product-form-not-possible",
                "The plan states that it is in product form.",
                f"Product form is not possible because {english(why) if why else 'its strategy has another form'}.",
                "Use the plan as fitnoise wrote it, or plan again.",
                "Nothing was measured.",
            )
        d, strategy = part.decomposition, part.strategy
        pairs = zip(strategy.groups, d.groups, strict=False)
        if strategy.structure != d.cell_structure or len(strategy.groups) != len(d.groups):
            raise other_sectors()
        if not all(np.array_equal(mine.attributes, theirs.attributes) for mine, theirs in pairs):
            raise other_sectors()
        kinds = {a: kind for kind in _estimation(part).problem.kinds for a in kind.axes}
        for a, factor in enumerate(strategy.factors):
            is_even = a not in kinds or kinds[a].is_exchangeable
            if is_even != (factor.rows is None):
                raise PlanError(
                    "product-factor-centred",
                    "A factor of the plan is centred for an attribute that is not shown value by value, or the "
                    "reverse.",
                    "",
                    "Use the plan as fitnoise wrote it, or plan again.",
                    "Nothing was measured.",
                )
            if factor.rows is not None:
                merged = kinds[a].merged
                first_values = np.unique(merged, return_index=True)[1]
                if (factor.rows != factor.rows[:, first_values][:, merged]).any():
                    raise PlanError(
                        "product-factor-too-fine",
                        "A factor of the plan distinguishes values that the tables do not.",
                        "",
                        "Use the plan as fitnoise wrote it, or plan again.",
                        "Nothing was measured.",
                    )
        # A factor that cannot be inverted raises an error here.
        _ = _estimation(part).inverses

    def cell_structure(self, request: Publication) -> CellStructure:
        """Return every attribute as an axis."""
        free, bound = exchangeable_attributes(request.workload)
        sizes = request.workload.domain.sizes
        return CellStructure(tuple((a, sizes[a]) for a in (*free, *bound)), ())

    def decomposition(self, part: TablePart) -> Decomposition:
        """Return the workload in sectors, with every attribute as an axis."""
        return decompose_by_axis(part.publication.workload)

    write = staticmethod(products_document)
    read = staticmethod(read_products)


@final
class ProductErrors(BlockErrors):
    """The errors of tables in product form."""

    def estimation(self) -> ProductEstimation:
        """Return the estimation of every sector from its own answers, axis by axis."""
        return ProductEstimation(*self.block_parts(problem))

    def worst(self, i: int) -> tuple[float, float]:
        """Return target and variance of the row with the largest variance, relative to its target."""
        part, estimation = self.part, _estimation(self.part)
        target = float(part.decomposition.variances[i])
        group, index = part.decomposition.group_of(i)
        table = part.publication.workload.tables[i]
        if table.target.attribute is None:
            return target, float(estimation.worst[i])
        variances = group.columns(estimation.table_variances(group.axes[index].tolist(), group.views)[None])[0]
        targets = table.variances(part.publication.workload.domain, part.publication.workload.confidence)
        targets = np.broadcast_to(targets, variances.shape)
        worst = int(np.argmax(variances / targets))
        return float(targets.flat[worst]), float(variances.flat[worst])

    def table_variances(self, name: str) -> Floats:
        """Return the variance of every number of a table."""
        group, i = self.part.decomposition.group_of(self.part.table_index(name))
        variances = _estimation(self.part).table_variances(group.axes[i].tolist(), group.views)
        return np.asarray(group.columns(variances[None])[0])


@final
class ProductProof(GaussianProof):
    """The least cost in product form, with the bound for all strategies."""

    def certificate(self) -> Certificate:
        """Return the dual bound at the evidence: the largest over the possible steps of one record."""
        product_problem, steps = _estimation(self.part).problem, self.part.publication.adjacency.step_relations
        ways = [replace(product_problem, replaced=step is Neighbours.REPLACE_ONE) for step in steps]
        # Each possible step of one record gives a valid bound, so the largest of them holds.
        proven = max(cores.lower_bound(x, self.part.evidence) for x in ways)
        return self.relaxed_certificate(proven * self.part.terms.factor)

    def prices(self) -> Floats:
        """Return prices from the dual weights, or from the weights of the total."""
        product_problem, evidence = _estimation(self.part).problem, self.part.evidence
        product_form.DualWeights.read(product_problem.for_evidence(evidence), evidence)
        if product_problem.shares is not None:
            return product_problem.shares
        # With laws of pairs, a table can have a weight for each product in the mixture of its row weights.
        by_table = evidence.numbers.reshape(-1, product_problem.tables).sum(axis=0)
        return np.asarray(by_table / by_table.sum())

    def separate_rho(self) -> float:
        """Return ρ of independent Gaussian noise of target variance times relaxation, a separate plan for each table.

        Under replace-one neighbours the costliest pair of records is searched, so ρ may be too small.
        """
        part = self.part
        replaced = part.publication.unit.neighbours is Neighbours.REPLACE_ONE
        gram_cache: dict[tuple[Operator | None, bytes, int], Floats] = {}
        sizes = np.array(part.decomposition.sizes)
        varies, one, total = _looser(part.publication.workload, part.decomposition), np.ones(1), 0.0
        for group in part.decomposition.tables:
            costs: dict[bytes, float] = {}
            rows = zip(group.tables.tolist(), group.axes, group.variances[:, 0].tolist(), strict=True)
            for t, axes, target in rows:
                axis, ratios = varies.get(t, (-1, one))
                # Of exchangeable values, two stand for all: a pair of records has at most two.
                values = [min(n, 2) for n in sizes[axes].tolist()]
                key = ratios.tobytes() + bytes([axis + 1, *values])
                if key not in costs:
                    looser = [ratios if i == axis else one for i in range(len(values))]
                    grams = [_gram(gram_cache, *x) for x in zip(group.views, looser, values, strict=True)]
                    costs[key] = (
                        _max_pair_distance(grams) if replaced else math.prod(float(x.diagonal().max()) for x in grams)
                    )
                total += costs[key] / (target * part.relaxation)
        return total / 2 * part.publication.adjacency.records**2


@final
class ProductDescriptions(GaussianDescriptions):
    """The descriptions of noise in product form."""

    equal_cost = Message("report.profile.as_costliest")

    def noise_scales(self) -> Iterator[tuple[list[Any], Indices, Floats]]:
        """Yield the attributes, the numbers of answers and the noise scales of each group of sets."""
        strategy, names = self.part.strategy, np.array(self.part.decomposition.exchangeable, dtype=object)
        for g, counts in zip(strategy.groups, strategy.counts, strict=True):
            yield names[g.attributes].tolist(), counts, g.scales


def _gram(
    grams: dict[tuple[Operator | None, bytes, int], Floats], view: Operator | None, looser: Floats, values: int
) -> Floats:
    """Return RᵀR of a view, each row divided by its ratio to the tightest target.

    Of exchangeable values, two stand for all, unless the targets vary.
    """
    key = view, looser.tobytes(), values
    if key not in grams:
        if view is None:
            grams[key] = np.diag(np.broadcast_to(1 / looser, max(values, len(looser))))
        else:
            grams[key] = rules.weighted_gram(view, np.broadcast_to(1 / looser, view.shape[0]))
    return grams[key]


def _max_pair_distance(grams: Sequence[Floats]) -> float:
    """Return a squared distance of two records in a table, the largest that several local searches find."""
    pairs = []
    for x in grams:
        g = np.diag(x)
        pairs.append((np.broadcast_to(g, x.shape).ravel(), np.repeat(g, len(g)), x.ravel()))
    # The searches start from the pair that differs most on every axis, and from pairs that differ on one axis only.
    distant = [int(np.argmax(one + other - 2 * both)) for one, other, both in pairs]
    equal = [int(np.argmax(np.where(one + other == 2 * both, both, -1))) for one, other, both in pairs]
    starts = [[*equal[:i], distant[i], *equal[i + 1 :]] for i in range(len(pairs))]
    return max(_climb(pairs, start) for start in [distant, *starts])


def _climb(pairs: Sequence[tuple[Floats, Floats, Floats]], best: list[int]) -> float:
    """Return a squared distance that no change of a single axis makes larger."""
    distance = -1.0
    while True:
        entries = [[part[i] for part in axis_pairs] for axis_pairs, i in zip(pairs, best, strict=True)]
        one, other, both = (math.prod(x[j] for x in entries) for j in range(3))
        if one + other - 2 * both <= distance * (1 + 1e-12):
            return distance
        distance = one + other - 2 * both
        for axis, axis_pairs in enumerate(pairs):
            rest = [math.prod(x[j] for i, x in enumerate(entries) if i != axis) for j in range(3)]
            # The squared distance is linear in the entries of one axis, so the best one is found exactly.
            best[axis] = int(np.argmax(rest[0] * axis_pairs[0] + rest[1] * axis_pairs[1] - 2 * rest[2] * axis_pairs[2]))
            entries[axis] = [part[best[axis]] for part in axis_pairs]


def _estimation(part: TablePart) -> ProductEstimation:
    return cast(ProductEstimation, part.estimation)


PRODUCTS = TableMechanism(
    "fit-for-use-by-axis", ProductCodec(), ProductErrors, ProductProof, ProductDescriptions, family="product form"
)
