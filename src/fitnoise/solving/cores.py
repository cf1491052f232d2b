"""A bound on all mechanisms for tables by axis, from weights that are products: nuclear norms through small cores.

**Symbols.**

| letter | meaning |
|---|---|
| p, q_t, θ | weights p = ⊗p_a of cells, q_t = ⊗q_{t,a} of rows and θ of tables, each of mass 1 |
| R, c_t | the queries of table t about attribute a, and the table's target variance |
| M_{a,t} | diag(q)^½ R diag(p)^½, for attribute a of table t |
| M | the stack over t of √(θ_t/c_t) ⊗_{a∈t} M_{a,t} ⊗_{a∉t} √p_aᵀ |
| P | the matrix of absolute value abs(M_{a,t}) = (MᵀM)^½ of M_{a,t} |
| L_a | an orthonormal basis: its first column is √p_a, then comes the block Krylov space of the P of attribute a |
| P_L, τ | LᵀPL, and τ = tr P − tr P_L ≥ 0 |
| H | a set of attributes that a table shows |

**Statement.** Δ² ≥ ‖M‖_*². M has as many columns as there are joint cells, and yet

    ‖M‖_* ≥ Σ_H ‖ stack over t ⊇ H of √(θ_t/c_t) Π_{a∈H} τ_{a,t} ⊗_{a∈t∖H} P_{L,a,t} ⊗_{a∉t} e₁ᵀ ‖_*

over all sets H. The bound is exact if every L_a is invariant; the Krylov spaces converge after few columns.

**Proof.** ‖M‖_* ≥ Σ_t tr(Y_tᵀM_t) for any Y_t with ΣY_tᵀY_t ⪯ I. Let Q be the polar factors of the M_{a,t}, π = I −
LLᵀ, and Z_H the polar factor of the stack of H. Take

    Y_t = Σ_{H⊆t} (⊗_{a∈H} Qπ_a) ⊗ (⊗_{a∈t∖H} QL_a) Z_{t,H} (⊗_{a∉H} L_a)ᵀ.

The columns of different H are orthogonal. Within H, ΣY_tᵀY_t ⪯ ΣZᵀZ ⪯ I. The traces are the terms.

**Replaced records.** Draw pairs of cells independently from p, given that they differ. Δ² is at least their mean
squared distance tr(X D). Here D = 2 (diag p − ppᵀ)/(1 − Σp²), and X is the measured precision. It follows that

    Δ² ≥ 2 ‖M (I − √p √pᵀ)‖_*² / (1 − Πₐ Σ p_a²).

√p is ⊗ √p_a, the first column of all cores. The module leaves it out of the stack of H = ∅, and of no other.

**Trust.** Weights can make the bound weak, never wrong. The module shares no code with the search except the meaning of
a problem. One H stands for others of the same kinds under two conditions, and the module checks both. Every exchange of
two attributes of one kind maps the tables, with views and targets, onto themselves. And all tables of a family have
equal weights.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from fitnoise.kernel.arrays import Floats, Indices
from fitnoise.solving.certificates import EPS, Evidence
from fitnoise.solving.product_form import DualWeights, ProductProblem

MAX_STACK, MAX_STACK_WHILE_RAISING = 1200, 850
"""Dimensions of the largest stack of cores: for the stated bound, and while the bound is raised."""

MIN_CORE_COLUMNS, MORE_ROOM = 3, 3600
"""The number of columns of a core below which a bound is some per cent lower. And the dimension of the stack up to
which the stated bound uses this number: some seconds. Forty attributes of 10 by pairs are proven 1230 instead of
1140."""

MIN_RELATIVE_RISE, PATIENCE = 2e-5, 4
"""The least relative rise of the bound's root for which the search goes on, and the number of steps that it waits for
it."""

MAX_RANK = 6
"""The number of columns of a core above which nothing is gained."""

SLACK = 1e-11
"""The allowance for rounding, relative to the total, in addition to that of every spectrum."""

Slot = tuple[int, int]
"""A kind, and one of its views."""

_Cored = tuple[tuple[int, int, Slot], ...]
"""Attributes that tables show in a core of more than one column, with the family and the slot."""


@final
@dataclass(frozen=True, eq=False)
class _Axis:
    """The queries of a family about a kind: the core P_L, and τ; for raising the bound, abs(M) and the polar factor.

    absolute: abs(M).
    polar: The polar factor.
    """

    core: Floats
    tau: float
    absolute: Floats
    polar: Floats


def lower_bound(x: ProductProblem, evidence: Evidence) -> float:
    """Return the bound on Δ² that evidence proves, for one record that is added, removed or replaced.

    Raises:
        PlanError: The weights prove nothing.
    """
    weights = DualWeights.read(x, evidence)
    room = MORE_ROOM if MAX_STACK < _dimension(x, MIN_CORE_COLUMNS) <= MORE_ROOM else MAX_STACK
    return _Cores(x, weights, room).value() ** 2 * (_distinct_factor(x, weights) if x.replaced else 1.0)


def _distinct_factor(x: ProductProblem, weights: DualWeights) -> float:
    """Return 2/(1 − Σp²), rounded down."""
    agreement = math.prod(
        (1 / kind.size if kind.is_exchangeable else float(p @ p)) ** len(kind.axes)
        for kind, p in zip(x.kinds, weights.p, strict=True)
    )
    # 2 is below every value of the quotient, and so a bound where 1 − Σp² is lost in rounding.
    return 2 * (1 - SLACK) / (1 - agreement) if agreement < 1 - SLACK else 2.0


def raised(x: ProductProblem, weights: DualWeights, steps: int = 20) -> Evidence:
    """Return weights that prove more, at worst those given: p, q and θ follow the marginals of the parts of abs(M)."""
    start = weights
    best, best_weights, patience = 0.0, weights, PATIENCE
    for _ in range(steps):
        value, following = _Cores(x, weights, MAX_STACK_WHILE_RAISING).step()
        patience = PATIENCE if value > best * (1 + MIN_RELATIVE_RISE) else patience - 1
        if value > best:
            best, best_weights = value, weights
        if not patience:
            break
        weights = following
    return max((candidate.evidence(x) for candidate in (start, best_weights)), key=lambda e: lower_bound(x, e))


def classes(x: ProductProblem, weights: DualWeights) -> list[tuple[frozenset[int], int]]:
    """Return sets H of attributes, each with the number of sets that it stands for."""
    sets = {frozenset(row[i] for i in m) for f in x.families for row in f.axes.tolist() for m in f.masks}
    is_uniform = all(np.ptp(theta) <= 1e-12 * theta.max() for theta in weights.theta)
    # Only then do sets of the same kinds have equal norms.
    if not (is_uniform and x.symmetric):
        return [(h, 1) for h in sorted(sets, key=sorted)]
    members_by_kinds: dict[tuple[int, ...], list[frozenset[int]]] = {}
    for h in sorted(sets, key=sorted):
        members_by_kinds.setdefault(tuple(sorted(x.kind[a] for a in h)), []).append(h)
    return [(members[0], len(members)) for members in members_by_kinds.values()]


def ranks(x: ProductProblem, room: int) -> list[int]:
    """Return the number of columns of the core of every kind.

    It is 1 for exchangeable kinds. For others, it is the largest number up to `MAX_RANK` with at most `room` columns in
    each stack, or 1 if 2 give more. It is at most the number of values.
    """
    r = max((r for r in range(2, MAX_RANK + 1) if _dimension(x, r) <= room), default=1)
    return [1 if k.is_exchangeable else min(r, k.size) for k in x.kinds]


def _dimension(x: ProductProblem, rank: int) -> int:
    """Return the dimension of the largest stack, with cores of `rank` columns."""
    return sum(n * (rank - 1) ** s for s, n in x.shapes.items())


class _Cores:
    """The cores of all axes at some weights."""

    def __init__(self, x: ProductProblem, weights: DualWeights, room: int) -> None:
        self.x, self.weights = x, weights
        self.parts: list[dict[Slot, _Axis]] = [{} for _ in x.families]
        self.bases: list[Floats] = []
        rank = ranks(x, room)
        for k, kind in enumerate(x.kinds):
            if kind.is_exchangeable:
                n = kind.size
                # The weights of cells and rows are equal and the queries are the identity, so abs(M) is I/n.
                one = np.full((1, 1), 1 / n)
                for f, part in zip(x.families, self.parts, strict=True):
                    part.update({s: _Axis(one, (n - 1) / n, one, one) for s in f.slots if s[0] == k})
                self.bases.append(np.ones((1, 1)))
                continue
            p = weights.p[k]
            polars: dict[tuple[int, int], tuple[Floats, Floats]] = {}
            for i, q in enumerate(weights.q):
                for (own_kind, v), rows in q.items():
                    if own_kind == k:
                        polars[i, v] = _polar(np.sqrt(rows)[:, None] * kind.views[v] * np.sqrt(p))
            basis = _krylov(np.sqrt(p), [m for m, _ in polars.values()], rank[k])
            self.bases.append(basis)
            for (i, v), (absolute, polar) in polars.items():
                core = basis.T @ absolute @ basis
                # Below 0 only by rounding; τ = 0 if the basis is invariant.
                tau = max(float(np.trace(absolute) - np.trace(core)), 0.0)
                self.parts[i][k, v] = _Axis(core, tau, absolute, polar)
        self.ranks = [b.shape[1] for b in self.bases]

    def value(self) -> float:
        """Return the sum over all sets, rounded down."""
        return (1 - SLACK) * sum(count * self.norm(h) for h, count in classes(self.x, self.weights))

    def norm(self, high: frozenset[int]) -> float:
        """Return the nuclear norm of the stack of a set H of attributes (`high`), rounded down."""
        return _roots(np.asarray(np.linalg.eigvalsh(self._stack(high).gram), dtype=np.float64))

    def _stack(self, high: frozenset[int]) -> _Stack:
        """Return the stack of a set H of attributes (`high`)."""
        tables = self._showing(high)
        places: dict[tuple[int, ...], int] = {}
        size = 0
        for rest in tables:
            for subset in _subsets([a for a, _, _ in rest]):
                if subset not in places:
                    places[subset] = size
                    size += math.prod(self._inside(subset))
        # Each column stands for a column of the core of every attribute. A subset has the attributes whose column is
        # not the first, √p.
        stack = _Stack(places, {}, tables, np.zeros((size, size)))
        for rest, factors in tables.items():
            axes = [a for a, _, _ in rest]
            where = np.empty([n + 1 for n in self._inside(axes)], dtype=np.intp)
            for subset in _subsets(axes):
                inside = self._inside(subset)
                corner = tuple(slice(1, None) if a in subset else 0 for a in axes)
                where[corner] = places[subset] + np.arange(math.prod(inside)).reshape(inside)
            stack.where[rest] = where.ravel()
            gram: Floats = np.ones((1, 1))
            for _, i, s in rest:
                core = self.parts[i][s].core
                gram = np.asarray(np.kron(gram, core.T @ core), dtype=np.float64)
            stack.gram[np.ix_(where.ravel(), where.ravel())] += sum(v for _, _, v in factors) * gram
        # √p is the first column of all cores. For replaced records it is left out of the stack of H = ∅, and of no
        # other.
        if self.x.replaced and not high:
            stack.gram[places[()]] = stack.gram[:, places[()]] = 0.0
        return stack

    def _inside(self, axes: Sequence[int]) -> list[int]:
        """Return the columns of the cores of some attributes, without the first of each."""
        return [self.ranks[self.x.kind[a]] - 1 for a in axes]

    def _showing(self, high: frozenset[int]) -> dict[_Cored, list[tuple[int, int, float]]]:
        """Return the tables that show all attributes of `high`, grouped by their others with a core of several columns.

        Each table is (family, table, factor), where the factor multiplies the Gram matrix of its cores.
        """
        out: dict[_Cored, list[tuple[int, int, float]]] = {}
        for i, f in enumerate(self.x.families):
            parts = self.parts[i]
            for t, row in enumerate(f.axes.tolist()):
                if not high.issubset(row):
                    continue
                scale = float(self.weights.theta[i][t] / f.variance)
                wide: list[tuple[int, int, Slot]] = []
                for a, s in zip(row, f.slots, strict=True):
                    if a in high:
                        scale *= parts[s].tau ** 2
                    elif self.ranks[s[0]] == 1:
                        scale *= float(parts[s].core[0, 0]) ** 2
                    else:
                        wide.append((a, i, s))
                out.setdefault(tuple(sorted(wide)), []).append((i, t, scale))
        return out

    def step(self) -> tuple[float, DualWeights]:
        """Return the bound's root, and weights that follow the marginals of abs(M)."""
        x, weights = self.x, self.weights
        marginals = _Marginals(
            [np.zeros((r, r)) for r in self.ranks],
            [{} for _ in x.kinds],
            [{s: np.zeros_like(axis.core) for s, axis in parts.items()} for parts in self.parts],
            [dict.fromkeys(parts, 0.0) for parts in self.parts],
            [np.zeros(len(f.tables)) for f in x.families],
        )
        all_classes = classes(x, weights)
        value = sum(count * self._collect(h, count, marginals) for h, count in all_classes)
        p = list(weights.p)
        for k, kind in enumerate(x.kinds):
            if kind.is_exchangeable:
                continue
            basis = self.bases[k]
            mass = np.einsum("ij,jk,ik->i", basis, marginals.core[k], basis)
            for (i, s), weight in marginals.rest[k].items():
                mass += weight * np.maximum(np.diag(_outside(self.parts[i][s].absolute, basis)), 0)
            p[k] = _followed(mass, p[k])
        q = [dict(rows_by_slot) for rows_by_slot in weights.q]
        for i, rows_by_slot in enumerate(q):
            for s, rows in rows_by_slot.items():
                part, basis = self.parts[i][s], self.bases[s[0]]
                turned = part.polar @ basis
                mass = np.einsum("ij,jk,ik->i", turned, marginals.rows[i][s], turned)
                outside = part.polar @ _outside(part.absolute, basis)
                mass += marginals.high[i][s] * np.einsum("ij,ij->i", outside, part.polar)
                # The rows beyond are the zeros that make the polar factor an isometry.
                rows_by_slot[s] = _followed(mass[: len(rows)], rows)
        # Where the shares of the tables are fixed, q and θ are fixed with them, and only p moves.
        if x.shares is not None or not value > 0:
            return value, DualWeights(p, weights.q, weights.theta)
        theta = marginals.theta
        if len(all_classes) and x.symmetric:
            # Equal weights within a family let one set stand for all of its kinds.
            theta = [np.full(len(shares), shares.mean()) for shares in theta]
        total = sum(float(shares.sum()) for shares in theta)
        return value, DualWeights(p, q, [np.maximum(shares / total, 1e-12) for shares in theta])

    def _collect(self, high: frozenset[int], count: int, out: _Marginals) -> float:
        """Add `count` times the share of one set's stack in all marginals, and return its nuclear norm."""
        x = self.x
        stack = self._stack(high)
        values, turn = np.linalg.eigh(stack.gram)
        # The weights need no care for rounding: they are only proposed, and `lower_bound` recomputes the bound.
        positive = values > max(float(values[-1]), 0.0) * 1e-13
        value = _roots(values)
        if not positive.any():
            return value
        roots, turn = np.sqrt(values[positive]), turn[:, positive]
        inverse, absolute = (turn / roots) @ turn.T, (turn * roots) @ turn.T
        for rest, tables in stack.tables.items():
            where = stack.where[rest]
            shape = [self.ranks[x.kind[a]] for a, _, _ in rest]
            corner = inverse[np.ix_(where, where)].reshape(shape + shape)
            squares = [self.parts[i][s].core.T @ self.parts[i][s].core for _, i, s in rest]
            each = _contracted(corner, squares, None)
            for i, t, scale in tables:
                part = count * scale * float(each)
                out.theta[i][t] += part
                f = x.families[i]
                for a, s in zip(f.axes[t].tolist(), f.slots, strict=True):
                    tau = self.parts[i][s].tau
                    if a in high and tau > 0 and not x.kinds[s[0]].is_exchangeable:
                        out.high[i][s] += part / tau
                        out.rest[s[0]][i, s] = out.rest[s[0]].get((i, s), 0.0) + part / tau
            scale = count * sum(v for _, _, v in tables)
            for j, (_, i, s) in enumerate(rest):
                core = self.parts[i][s].core
                out.rows[i][s] += scale * core @ _contracted(corner, squares, j) @ core.T
        # Count every attribute at its first column, and then take off the parts in other columns.
        trace = float(np.trace(absolute))
        for k, kind in enumerate(x.kinds):
            here = [a for a in kind.axes if a not in high]
            if self.ranks[k] > 1:
                out.core[k][0, 0] += count * trace * len(here)
        for subset, begin in stack.places.items():
            inside = self._inside(subset)
            block = begin + np.arange(math.prod(inside)).reshape(inside)
            for j, a in enumerate(subset):
                k = x.kind[a]
                lines = np.moveaxis(block, j, -1).reshape(-1, inside[j])
                below = stack.places[tuple(b for b in subset if b != a)] + np.arange(len(lines))
                diagonal = absolute[lines[:, :, None], lines[:, None, :]].sum(axis=0)
                cross = absolute[below[:, None], lines].sum(axis=0)
                out.core[k][1:, 1:] += count * diagonal
                out.core[k][0, 1:] += count * cross
                out.core[k][1:, 0] += count * cross
                out.core[k][0, 0] -= count * float(np.trace(diagonal))
        return value


@dataclass(frozen=True, eq=False)
class _Stack:
    """The stack of one set H.

    places: The first of the columns for each set of attributes whose column of L_a is not √p_a.
    where: The columns of tables, by their cores.
    tables: The tables, by their cores.
    gram: The Gram matrix of the stack.
    """

    places: dict[tuple[int, ...], int]
    where: dict[_Cored, Indices]
    tables: Mapping[_Cored, list[tuple[int, int, float]]]
    gram: Floats


@dataclass(frozen=True, eq=False)
class _Marginals:
    """The marginals of abs(M): inside and outside the cores by kind, on rows by family and slot, and by table."""

    core: list[Floats]
    rest: list[dict[tuple[int, Slot], float]]
    rows: list[dict[Slot, Floats]]
    high: list[dict[Slot, float]]
    theta: list[Floats]


def _polar(m: Floats) -> tuple[Floats, Floats]:
    """Return abs(M), and the polar factor of M with rows of zeros below, so that it is an isometry."""
    rows, n = m.shape
    u, s, vt = np.linalg.svd(np.vstack([m, np.zeros((max(n - rows, 0), n))]), full_matrices=False)
    return (vt.T * s) @ vt, u @ vt


def _krylov(start: Floats, matrices: list[Floats], rank: int) -> Floats:
    """Return an orthonormal basis of at most `rank` columns: a unit vector, and its images under the matrices."""
    basis = front = start[:, None] / np.linalg.norm(start)
    while basis.shape[1] < rank and front.shape[1]:
        new: list[Floats] = []
        for column in front.T:
            for m in matrices:
                image = m @ column
                y, known_columns = image, np.column_stack([basis, *new])
                # A single pass of Gram–Schmidt leaves a part along the basis, by rounding.
                for _ in range(2):
                    y = y - known_columns @ (known_columns.T @ y)
                norm = float(np.linalg.norm(y))
                # A shorter rest is rounding: the span holds the image already.
                if norm > 1e-9 * float(np.linalg.norm(image)) and basis.shape[1] + len(new) < rank:
                    new.append(y / norm)
        front = np.column_stack(new) if new else np.zeros((len(start), 0))
        basis = np.column_stack([basis, front])
    return basis


def _roots(values: Floats) -> float:
    """Return Σ √λ of a Gram matrix's eigenvalues, rising, less their rounding."""
    # Without this, a zero computed as 1e-17 would count 3e-9.
    lowered = values - 4 * len(values) * EPS * max(float(values[-1]), 0.0)
    return float(np.sqrt(np.maximum(lowered, 0)).sum())


def _subsets(axes: list[int]) -> list[tuple[int, ...]]:
    return [c for k in range(len(axes) + 1) for c in itertools.combinations(axes, k)]


def _contracted(tensor: Floats, squares: list[Floats], but: int | None) -> Floats:
    """Return a tensor of twice as many axes times symmetric matrices, summed over axes except `but`, if any."""
    n = len(squares)
    args: list[Any] = [tensor, list(range(2 * n))]
    for j, square in enumerate(squares):
        if j != but:
            args += [square, [j, n + j]]
    return np.asarray(np.einsum(*args, [] if but is None else [but, n + but]))


def _outside(m: Floats, basis: Floats) -> Floats:
    """Return πMπ, π = I − LLᵀ."""
    projected = m - basis @ (basis.T @ m)
    return np.asarray(projected - (projected @ basis) @ basis.T)


def _followed(mass: Floats, before: Floats) -> Floats:
    """Return weights in proportion to a marginal; those before if the marginal has no positive part."""
    positive = np.maximum(mass, 0)
    total = float(positive.sum())
    if not total > 0:
        return before
    # A weight of 0 would stay 0.
    floored = np.maximum(positive / total, 1e-9)
    return np.asarray(floored / floored.sum())
