"""Product form for several views of several attributes: one basis for each, a scale for each product of its vectors.

**Purpose.** One K_a has to serve all views of an attribute. If some tables ask for values and others for prefixes, it
is far from the best of both. This module therefore uses a basis F_a of the measured contrasts without the total. In
this basis, the best K of every view is almost diagonal.

**Statement** (letters as in :mod:`fitnoise.solving.product_form`). Sector T measures ⊗_{a∈T} F_a⁻¹ Eᵀ(I − w 1ᵀ) at a
precision s_T(r) for each product of basis vectors r:

    f_T(i) = Σ_r s_T(r) Π_{a∈T} D_a(r_a, i_a),            D_a = (F⁻¹ Eᵀ (e_i − w))²  entry by entry,

    var_t(j) = Σ_{T⊆t} Σ_r s_T(r)⁻¹ Π_{a∈T} V_a(j_a, r_a) Π_{a∈t∖T} (R w)²_{j_a},     V_a = (R E F)²  entry by entry.

**Method.** The weights are p of cells and, for each table, a tensor q_t of rows. s_T(r)² is the weight of the variances
over the weight of the cells. F makes K of one view the identity and that of the others diagonal. Cells are no longer
interchangeable: Δ² = max_i Σ_T f_T(i_T). The search computes this maximum up to `CELLS` joint cells. Above that, it
takes the sum of maxima as a bound.

**Trust.** Nothing found here is believed: the kernel computes the cost from the integers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
import scipy.linalg as sl

from fitnoise.kernel.arrays import Floats
from fitnoise.solving.certificates import Evidence
from fitnoise.solving.product_form import DualWeights, ProductProblem, RealProductStrategy, geometric_mean, outer

CELLS = 10**6
"""The number of joint cells up to which every evaluation finds the costliest one."""

MAX_JOINT_NUMBERS, MAX_JOINT_SCALES = 2**20, 2**16
"""The limits of this form: the numbers of all tables, which are all in memory, and the scales, which a plan lists."""

MAX_SECTOR_CELLS = 10**6
"""The largest number of joint values of a set. Pricing each in integers of any size takes some 0.8 kB."""

STEPS_BEFORE_WEIGHTS = 8
"""The number of steps before weights move, in which bases and w settle."""

STEPS, MAX_STALLED_STEPS = 400, 50
"""The largest number of steps, and the number of steps without gain after which a search ends."""

MIN_RELATIVE_GAIN = 1e-4
"""The least relative decrease that counts as a gain."""

STEPS_BETWEEN_EVALUATIONS = 10
"""The number of steps between two evaluations of the cost of a strategy."""

MIN_PRECISION = 1e-9
"""The least precision of a product of vectors, relative to the largest of its set. No table uses some of them."""


@final
@dataclass(frozen=True, eq=False)
class RealJointStrategy:
    """A strategy of joint bases, before it is made of integers.

    w, bases: For each kind, w (n',) and F (n' − 1, n' − 1). F is (n', n') if every table shows the kind. Both are empty
        for exchangeable kinds.
    precisions: s_T by set of attributes. Its axes have the vectors of each attribute's basis, or length 1.
    value: Δ² at which all targets are met, or at which the sum of `shares` times variance over target is 1. Above
        `CELLS` joint cells it is an upper bound on Δ².
    """

    w: list[Floats]
    bases: list[Floats]
    precisions: dict[tuple[int, ...], Floats]
    value: float


@dataclass(eq=False)
class _JointTable:
    """A table in the search.

    axes: Its attributes, rising.
    slots: The kind and the view of each of them.
    variance: Its target variance.
    masks: The subsets of its slots that are sectors: all that contain every attribute that all tables show.
    q: The weights of its rows, with one axis for each attribute, of length 1 for exchangeable ones.
    """

    axes: list[int]
    slots: list[tuple[int, int]]
    variance: float
    masks: list[tuple[int, ...]]
    q: Floats


def is_supported(x: ProductProblem) -> bool:
    """Return True if some attribute has several views, and some table shows it with another structured attribute.

    The problem must also be within the limits, and its neighbours must add or remove a record.
    """
    wide = [not kind.is_exchangeable for kind in x.kinds]
    several = any(
        len(x.kinds[k].views) > 1 and sum(wide[other] for other, _ in f.slots) > 1
        for f in x.families
        for k, _ in f.slots
    )
    if x.replaced or not several:
        return False
    numbers = sum(
        len(f.tables) * math.prod(len(x.kinds[k].views[v]) for k, v in f.slots if wide[k]) for f in x.families
    )
    sets = {tuple(sorted(row[i] for i in m)) for f in x.families for row in f.axes.tolist() for m in f.masks}
    scales = sum(math.prod(x.kinds[x.kind[a]].size for a in attributes if wide[x.kind[a]]) for attributes in sets)
    cells = max(math.prod(len(x.kinds[x.kind[a]].merged) for a in attributes if wide[x.kind[a]]) for attributes in sets)
    return numbers <= MAX_JOINT_NUMBERS and scales <= MAX_JOINT_SCALES and cells <= MAX_SECTOR_CELLS


def solve(x: ProductProblem, evidence: Evidence, strategy: RealProductStrategy) -> RealJointStrategy:
    """Return the best form found, from weights that prove a bound, and w of a form with one K for each attribute.

    Raises:
        PlanError: The weights of the evidence prove nothing.
    """
    search = _AscentSearch(x, DualWeights.read(x, evidence), strategy)
    best, last = search.form(), 0
    for step in range(1, STEPS + 1):
        search.move()
        if step > STEPS_BEFORE_WEIGHTS:
            search.ascend()
        search.improve()
        if step % STEPS_BETWEEN_EVALUATIONS == 0:
            form = search.form()
            # The value can rise for some steps before it falls again, so only many steps without gain end the search.
            last = step if form.value < best.value * (1 - MIN_RELATIVE_GAIN) else last
            best = min(best, form, key=lambda y: y.value)
            if step >= last + MAX_STALLED_STEPS:
                break
    return best


class _AscentSearch:
    """The ascent of the weights, with the strategy that is best for them."""

    def __init__(self, x: ProductProblem, start: DualWeights, strategy: RealProductStrategy) -> None:
        self.x = x
        self.p = [np.ones(1) if kind.is_exchangeable else p.copy() for kind, p in zip(x.kinds, start.p, strict=True)]
        self.w = [w.copy() for w in strategy.w]
        self.tables = []
        for f, row_weights, theta in zip(x.families, start.q, start.theta, strict=True):
            for row, weight in zip(f.axes.tolist(), theta.tolist(), strict=True):
                # One order of axes for all tables: loads of one sector from several tables are then added without
                # transposing.
                order = sorted(range(len(row)), key=row.__getitem__)
                slots = [f.slots[i] for i in order]
                q = np.array(weight)
                for s in slots:
                    q = np.multiply.outer(q, row_weights.get(s, np.ones(1)))
                masks = [m for m in f.masks if all(i in m or not x.kinds[k].always for i, (k, _) in enumerate(slots))]
                self.tables.append(_JointTable([row[i] for i in order], slots, f.variance, masks, q))
        self.e = [kind.contrasts for kind in x.kinds]
        self.views = [{v: r @ e for v, r in kind.views.items()} for kind, e in zip(x.kinds, self.e, strict=True)]
        self.improve()

    def improve(self) -> None:
        """Compute bases and precisions for the current weights and w."""
        x = self.x
        self.bases: list[Floats] = []
        self.cells: list[Floats] = []
        self.rows: list[dict[int, tuple[Floats, Floats]]] = []
        for k, kind in enumerate(x.kinds):
            if kind.is_exchangeable:
                self.bases.append(np.zeros((0, 0)))
                # The centring of n values has g = v = 1 − 1/n, and f = 1/n.
                self.cells.append(np.array([[1 - 1 / kind.size]]))
                self.rows.append(
                    {v: (np.array([[1 - 1 / kind.size]]), np.array([kind.size**-2.0])) for v in self._used_views(k)}
                )
                continue
            y = self.e[k] - self.w[k] @ self.e[k]
            mass = self._mass(k)
            base = _basis(
                y.T @ (self.p[k][:, None] * y),
                [self.views[k][v].T @ (m[:, None] * self.views[k][v]) for v, m in mass.items()],
            )
            self.bases.append(base)
            self.cells.append(np.asarray(np.linalg.solve(base, y.T) ** 2))
            self.rows.append({v: ((self.views[k][v] @ base) ** 2, (kind.views[v] @ self.w[k]) ** 2) for v in mass})
        self.each = [d @ p for d, p in zip(self.cells, self.p, strict=True)]
        above: dict[tuple[int, ...], Floats] = {}
        for t in self.tables:
            for m in t.masks:
                # An attribute contributes v inside the sector, and f² outside.
                load = _apply_along_axes(
                    t.q / t.variance, [v.T if i in m else f[None] for i, (v, f) in enumerate(self._rows_of(t))]
                )
                sector = tuple(t.axes[i] for i in m)
                above[sector] = above.get(sector, 0.0) + load.reshape([n for i, n in enumerate(load.shape) if i in m])
        self.precisions, self.nu = {}, 0.0
        for sector, n in above.items():
            cost = outer([self.each[x.kind[a]] for a in sector])
            # The least of cost · s + n / s over a precision s is at s = √(n / cost), and is 2 √(n · cost).
            precision = np.sqrt(n / cost)
            self.precisions[sector] = np.maximum(precision, MIN_PRECISION * precision.max())
            self.nu += float(np.sqrt(n * cost).sum())
        self.variances = [self._variances(t) for t in self.tables]

    def _used_views(self, kind: int) -> set[int]:
        return {v for t in self.tables for k, v in t.slots if k == kind}

    def _mass(self, kind: int) -> dict[int, Floats]:
        """Return the weights of the rows of every view of a kind."""
        out: dict[int, Floats] = {}
        for t in self.tables:
            for i, (k, v) in enumerate(t.slots):
                if k == kind:
                    mass = t.q.sum(axis=tuple(j for j in range(t.q.ndim) if j != i)) / t.variance
                    out[v] = out[v] + mass if v in out else mass
        return out

    def _rows_of(self, t: _JointTable) -> list[tuple[Floats, Floats]]:
        return [self.rows[k][v] for k, v in t.slots]

    def _variances(self, t: _JointTable) -> Floats:
        """Return the variances of all rows of a table, relative to its target."""
        return np.asarray(sum(self._part(t, m, None) for m in t.masks) / t.variance)

    def _part(self, t: _JointTable, mask: tuple[int, ...], without: int | None) -> Floats:
        """Return the contribution of a sector to the variances of a table, with one axis for each of its slots.

        mask: The slots of the table in the sector.
        without: The slot whose factor f² is left out; None leaves out none.
        """
        rows = self._rows_of(t)
        x = _apply_along_axes(1 / self.precisions[tuple(t.axes[i] for i in mask)], [rows[i][0] for i in mask])
        x = x.reshape([len(f) if i in mask else 1 for i, (_, f) in enumerate(rows)])
        for i, (_, f) in enumerate(rows):
            if i not in mask and i != without:
                x = x * f.reshape([-1 if i == j else 1 for j in range(len(rows))])
        return x

    def value(self) -> float:
        """Return Δ² of the current strategy, scaled to meet its worst target, or the sum."""
        if self.x.shares is None:
            missed = max(float(v.max()) for v in self.variances)
        else:
            missed = sum(float((t.q * v).sum()) for t, v in zip(self.tables, self.variances, strict=True))
        return self._max_cost() * missed

    def _max_cost(self) -> float:
        """Return the largest cost of one record; above CELLS, the sum over sectors of its largest cost in each."""
        sizes = [self.cells[k].shape[1] if k >= 0 else 1 for k in self.x.kind]
        # The sum of the largest costs by sector is an upper bound: no cell need have all of them.
        joint = math.prod(sizes) <= CELLS
        total = np.zeros(sizes if joint else ())
        for sector, s in self.precisions.items():
            f = _apply_along_axes(s, [self.cells[self.x.kind[a]].T for a in sector])
            total = total + (f.reshape([n if a in sector else 1 for a, n in enumerate(sizes)]) if joint else f.max())
        return float(total.max())

    def form(self) -> RealJointStrategy:
        """Return a copy of the current strategy."""
        return RealJointStrategy([w.copy() for w in self.w], self.bases, dict(self.precisions), self.value())

    def ascend(self) -> None:
        """Move the weights towards the costliest cells and the least accurate rows."""
        for k, kind in enumerate(self.x.kinds):
            if not kind.is_exchangeable:
                grown = self.p[k] * (self._weight(k) @ self.cells[k])
                # A weight of 0 would stay 0.
                floored = np.maximum(grown / grown.sum(), 1e-9)
                self.p[k] = floored / floored.sum()
        if self.x.shares is None:
            for t, v in zip(self.tables, self.variances, strict=True):
                t.q = np.maximum(t.q * v / self.nu, 1e-14)
            total = sum(float(t.q.sum()) for t in self.tables)
            for t in self.tables:
                t.q = t.q / total

    def _weight(self, kind: int) -> Floats:
        """Return the average cost of each vector of a kind's basis, over all sets and attributes of the kind."""
        out = np.zeros(len(self.cells[kind]))
        for sector, s in self.precisions.items():
            for i, a in enumerate(sector):
                if self.x.kind[a] == kind:
                    rest = [
                        np.eye(s.shape[i]) if j == i else self.each[self.x.kind[b]][None] for j, b in enumerate(sector)
                    ]
                    out += _apply_along_axes(s, rest).ravel()
        return out

    def move(self) -> None:
        """Move w half of the way to the best w."""
        for k, kind in enumerate(self.x.kinds):
            if kind.is_exchangeable or kind.always:
                continue
            mean = np.zeros((kind.size, kind.size))
            for t in self.tables:
                for i, (slot_kind, v) in enumerate(t.slots):
                    if slot_kind == k:
                        slope = sum(self._part(t, m, i) for m in t.masks if i not in m) * t.q / t.variance
                        row_slopes = slope.sum(axis=tuple(j for j in range(slope.ndim) if j != i))
                        mean += kind.views[v].T @ (row_slopes[:, None] * kind.views[v])
            e, inverse = self.e[k], np.linalg.inv(self.bases[k])
            inner = inverse.T @ (self._weight(k)[:, None] * inverse) + e.T @ mean @ e
            best = self.p[k] + e @ np.linalg.solve(inner, -e.T @ (mean @ self.p[k]))
            # `best` holds the bases fixed, which change with w.
            self.w[k] = (self.w[k] + best) / 2


def _basis(cells: Floats, rows: Sequence[Floats]) -> Floats:
    """Return F with F Fᵀ the best K of one view, in which the sum of the others' best K is diagonal.

    cells: The moment of the contrasts over the cells, (n, n).
    rows: The moment of the contrasts over the rows of each view, (n, n) each; the first is the view that F Fᵀ fits.
    """
    leading = geometric_mean(cells, rows[0])
    # With one view, a diagonal moment C of the cells makes that of the rows diagonal too, since K N K = C.
    other = np.sum([geometric_mean(cells, n) for n in rows[1:]], axis=0) if len(rows) > 1 else cells
    root = np.linalg.cholesky(leading)
    half = sl.solve_triangular(root, sl.solve_triangular(root, other, lower=True).T, lower=True)
    return np.asarray(root @ np.linalg.eigh((half + half.T) / 2)[1])


def _apply_along_axes(x: Floats, matrices: Sequence[Floats]) -> Floats:
    """Apply a matrix along each axis."""
    for i, m in enumerate(matrices):
        x = np.moveaxis(np.tensordot(m, x, (1, i)), 0, i)
    return x
