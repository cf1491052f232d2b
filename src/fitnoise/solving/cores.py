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
:mod:`fitnoise.solving.pair_laws` proves a higher bound from other laws of pairs, by a factor for each column.

**Trust.** Weights can make the bound weak, never wrong. The module shares no code with the search except the meaning of
a problem. One H stands for others of the same kinds under two conditions, and the module checks both. Every exchange of
two attributes of one kind maps the tables, with views and targets, onto themselves. And all tables of a family have
equal weights.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast, final

import numpy as np

from fitnoise.kernel.arrays import Floats, Indices
from fitnoise.solving.certificates import EPS, Evidence
from fitnoise.solving.pair_laws import LawCore, PairLaws, differences, has_matrix
from fitnoise.solving.product_form import DualWeights, ProductProblem, tilted

MAX_STACK, MAX_STACK_WHILE_RAISING = 1200, 850
"""Dimensions of the largest stack of cores: for the stated bound, and while the bound is raised."""

MIN_CORE_COLUMNS, MORE_ROOM = 3, 3600
"""The number of columns of a core below which a bound is some per cent lower. And the dimension of the stack up to
which the stated bound uses this number: some seconds. Forty attributes of 10 by pairs are proven 1230 instead of
1140."""

COPIES, MAX_MIXED_STACK, MAX_MIXED_TABLES = 4, 300, 5_000
"""The number of products in the mixture of a table's row weights under laws of pairs. The largest dimension of a stack
whose cores hold all vectors, and of tables times sets H, for such a mixture."""

MAX_LAW_STACK, LAW_STEPS = 450, 80
"""The dimension of the largest stack while laws of pairs are raised, and the largest number of steps."""

MIN_RELATIVE_RISE, PATIENCE = 2e-5, 4
"""The least relative rise of the bound's root for which the search goes on, and the number of steps that it waits for
it."""

LAW_POWER, MIN_PAIR = 3.0, 1e-10
"""The power of the relative costs by which laws of pairs follow them, and the least probability of a pair."""

MAX_RANK, MAX_LAW_RANK = 6, 24
"""The number of columns of a core above which nothing is gained, without and with laws of pairs."""

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
    x = x.for_evidence(evidence)
    weights = DualWeights.read(x, evidence)
    room = MORE_ROOM if MAX_STACK < _dimension(x, MIN_CORE_COLUMNS) <= MORE_ROOM else MAX_STACK
    return _Cores(x, weights, room).bound()


def _distinct_factor(x: ProductProblem, weights: DualWeights) -> float:
    """Return 2/(1 − Σp²), rounded down."""
    agreement = math.prod(
        (1 / kind.size if kind.is_exchangeable else float(p @ p)) ** len(kind.axes)
        for kind, p in zip(x.kinds, weights.p, strict=True)
    )
    # 2 is below every value of the quotient, and so a bound where 1 − Σp² is lost in rounding.
    return 2 * (1 - SLACK) / (1 - agreement) if agreement < 1 - SLACK else 2.0


def raised(x: ProductProblem, weights: DualWeights, steps: int = 20) -> Evidence:
    """Return weights that prove more, at worst those given: p, q and θ follow the marginals of the parts of abs(M).

    Where records are replaced, laws of pairs are tried too.
    """
    best_weights = _climbed(x, weights, steps, MAX_STACK_WHILE_RAISING, lambda root, _: root)
    candidates = [candidate.evidence(x) for candidate in (weights, best_weights)]
    if x.replaced and x.kinds:
        candidates.append(_raised_by_laws(x, best_weights))
    return max(candidates, key=lambda e: lower_bound(x, e))


def _raised_by_laws(x: ProductProblem, weights: DualWeights) -> Evidence:
    """Return laws of pairs that prove more, from weights of a search: laws, q, θ and λ follow the costs of pairs.

    If full cores are small, the row weights of every table become a mixture of products.
    """
    max_size = max((kind.size for kind in x.kinds if not kind.is_exchangeable), default=1)
    sets = {frozenset(row[i] for i in m) for f in x.families for row in f.axes.tolist() for m in f.masks}
    is_mixed = (
        x.shares is None and _dimension(x, max_size) <= MAX_MIXED_STACK and len(sets) * x.tables <= MAX_MIXED_TABLES
    )
    y = x.mixed(COPIES if is_mixed else 1)
    types = len(differences([len(kind.axes) for kind in x.kinds]))
    laws = y.pair_laws([_first_law(p) for p in weights.p], np.full(types, 1 / types))
    p = [np.zeros(0) if k.is_exchangeable else v for k, v in zip(x.kinds, laws.margins, strict=True)]
    q, theta = weights.q, weights.theta
    if is_mixed:
        uniform = DualWeights.uniform(y)
        q, theta = uniform.q, uniform.theta
        for n, (f, rows) in enumerate(zip(y.families, q, strict=True)):
            for i, s in enumerate(f.slots):
                if s in rows:
                    rows[s] = tilted(rows[s], n // len(x.families), i, COPIES)
    weights = DualWeights(p, q, theta, laws)
    return _climbed(y, weights, LAW_STEPS, MAX_LAW_STACK, lambda root, x: root**2 / x.differ).evidence(y)


def _climbed(
    x: ProductProblem, weights: DualWeights, steps: int, max_stack: int, score: Callable[[float, _Cores], float]
) -> DualWeights:
    """Return the weights of the highest score of a search that follows the marginals.

    score: The value of weights, from the root of their bound and their cores.
    """
    best, best_weights, patience = 0.0, weights, PATIENCE
    for _ in range(steps):
        here = _Cores(x, weights, max_stack)
        root, following = here.step()
        value = score(root, here)
        patience = PATIENCE if value > best * (1 + MIN_RELATIVE_RISE) else patience - 1
        if value > best:
            best, best_weights = value, weights
        if not patience:
            break
        weights = following
    return best_weights


def _first_law(p: Floats) -> Floats:
    """Return the law from which a search starts: independent values, equal ones more seldom."""
    if not has_matrix(len(p)):
        return p
    law = np.outer(p, p) * (1 - 0.7 * np.eye(len(p)))
    return np.asarray(law / law.sum())


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


def ranks(x: ProductProblem, room: int, *, has_laws: bool = False) -> list[int]:
    """Return the number of columns of the core of every kind.

    It is 1 for exchangeable kinds. For others, it is the largest number with at most `room` columns in each
    stack, or 1 if 2 give more. The limit is `MAX_RANK`, or `MAX_LAW_RANK` with laws of pairs. It is at most the number
    of values.
    """
    max_rank = MAX_LAW_RANK if has_laws else MAX_RANK
    r = max((r for r in range(2, max_rank + 1) if _dimension(x, r) <= room), default=1)
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
        self.laws: list[LawCore | None] = []
        rank = ranks(x, room, has_laws=weights.laws is not None)
        for k, kind in enumerate(x.kinds):
            if kind.is_exchangeable:
                n = kind.size
                # The weights of cells and rows are equal and the queries are the identity, so abs(M) is I/n.
                one = np.full((1, 1), 1 / n)
                for f, part in zip(x.families, self.parts, strict=True):
                    part.update({s: _Axis(one, (n - 1) / n, one, one) for s in f.slots if s[0] == k})
                self.bases.append(np.ones((1, 1)))
                self.laws.append(None if weights.laws is None else weights.laws.core(k, np.ones((1, 1))))
                continue
            p = weights.p[k]
            polars: dict[tuple[int, int], tuple[Floats, Floats]] = {}
            for i, q in enumerate(weights.q):
                for (own_kind, v), rows in q.items():
                    if own_kind == k:
                        polars[i, v] = _polar(np.sqrt(rows)[:, None] * kind.views[v] * np.sqrt(p))
            basis = _krylov(np.sqrt(p), [m for m, _ in polars.values()], rank[k])
            law = None if weights.laws is None else weights.laws.core(k, basis)
            basis = basis if law is None else law.basis
            self.laws.append(law)
            self.bases.append(basis)
            for (i, v), (absolute, polar) in polars.items():
                core = basis.T @ absolute @ basis
                # Below 0 only by rounding; τ = 0 if the basis is invariant.
                tau = max(float(np.trace(absolute) - np.trace(core)), 0.0)
                self.parts[i][k, v] = _Axis(core, tau, absolute, polar)
        self.ranks = [b.shape[1] for b in self.bases]
        self.agreement = np.array([law.agreement for law in self.laws if law is not None])

    @property
    def differ(self) -> float:
        """δ of laws of pairs, rounded up."""
        laws = cast(PairLaws, self.weights.laws)
        equal = float(laws.type_weights @ np.prod(self.agreement**laws.types, axis=1))
        return min(1.0, 1 - equal + laws.allowance)

    def bound(self) -> float:
        """Return the bound on Δ²."""
        if self.weights.laws is not None:
            return self.value() ** 2 / self.differ
        return self.value() ** 2 * (_distinct_factor(self.x, self.weights) if self.x.replaced else 1.0)

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
        if self.weights.laws is not None:
            stack.roots = np.sqrt(self._factors(high, places, size))
            stack.gram *= np.multiply.outer(stack.roots, stack.roots)
        # √p is the first column of all cores. For pairs drawn independently it is left out of the stack of H = ∅, and
        # of no other.
        elif self.x.replaced and not high:
            stack.gram[places[()]] = stack.gram[:, places[()]] = 0.0
        return stack

    def _factors(self, high: frozenset[int], places: Mapping[tuple[int, ...], int], size: int) -> Floats:
        """Return γ_H of every column of a stack, rounded down, (size,)."""
        laws = cast(PairLaws, self.weights.laws)
        out = np.zeros(size)
        for subset, begin in places.items():
            shape = self._inside(subset)
            nearness = np.zeros(shape)
            attributes = [*high, *subset]
            for part in _subsets(attributes):
                weight = float(laws.type_weights @ self._chances(attributes, part))
                nearness = nearness + (weight * self._nearness(part, high, subset) if weight else 0.0)
            out[begin : begin + nearness.size] = nearness.ravel()
        return np.asarray(np.maximum(2 * (laws.type_weights.sum() - out) - laws.allowance, 0.0))

    def _chances(self, attributes: Sequence[int], differing: Sequence[int]) -> Floats:
        kinds = self.x.kind
        return cast(PairLaws, self.weights.laws).chances([kinds[a] for a in attributes], [kinds[a] for a in differing])

    def _nearness(self, part: Sequence[int], high: frozenset[int], subset: Sequence[int]) -> Floats:
        """Return Π κ over the attributes of a part, for all columns of a subset, with an axis for each."""
        product: Floats = np.ones([1] * len(subset))
        for a in part:
            law = cast(LawCore, self.laws[self.x.kind[a]])
            if a in high:
                product = product * law.outside
            else:
                j = subset.index(a)
                product = product * law.values[1:].reshape([-1 if i == j else 1 for i in range(len(subset))])
        return product

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

    def _collect_pairs(
        self, high: frozenset[int], count: int, stack: _Stack, absolute: Floats, out: _Marginals
    ) -> None:
        """Add the costs of pairs in one set's stack: inside the cores, and their traces outside, by kind and type."""
        x, roots = self.x, cast(Floats, stack.roots)
        inverse = np.divide(1.0, roots, out=np.zeros_like(roots), where=roots > 1e-7)
        cost = count * absolute * np.multiply.outer(inverse, inverse)
        diagonal = np.diag(cost)
        out.types[:] += diagonal.sum()
        for subset, begin in stack.places.items():
            inside = self._inside(subset)
            block = begin + np.arange(math.prod(inside)).reshape(inside)
            here, attributes = diagonal[block], [*high, *subset]
            for part in _subsets(attributes):
                nearness = float((here * self._nearness(part, high, subset)).sum())
                out.types[:] -= self._chances(attributes, part) * nearness
            for k, kind in enumerate(x.kinds):
                # Attributes of the kind with the first column, √p, whose eigenvalue is 1.
                others = [a for a in kind.axes if a not in attributes]
                if others and self.ranks[k] > 1:
                    cell_weight, pair_weight = self._weights(others[0], high, subset)
                    out.cell_costs[k][0, 0] += len(others) * float((here * cell_weight).sum())
                    out.core[k][0, 0] += len(others) * float((here * pair_weight).sum())
            for j, a in enumerate(subset):
                k = x.kind[a]
                rest = tuple(b for b in subset if b != a)
                lines = np.moveaxis(block, j, -1).reshape(-1, inside[j])
                below = stack.places[rest] + np.arange(len(lines))
                squares, cross = cost[lines[:, :, None], lines[:, None, :]], cost[below[:, None], lines]
                for target, weight in zip((out.cell_costs, out.core), self._weights(a, high, rest), strict=True):
                    flat = np.broadcast_to(weight, [inside[i] for i in range(len(inside)) if i != j]).ravel()
                    target[k][1:, 1:] += np.tensordot(flat, squares, 1)
                    target[k][0, 1:] += flat @ cross
                    target[k][1:, 0] += flat @ cross
            for a in high:
                k = x.kind[a]
                if not x.kinds[k].is_exchangeable:
                    cell_weight, pair_weight = self._weights(a, high - {a}, subset)
                    out.outside[k] += np.array([float((here * cell_weight).sum()), float((here * pair_weight).sum())])

    def _weights(self, a: int, high: frozenset[int], subset: Sequence[int]) -> tuple[Floats, Floats]:
        """Return the weights of the costs of an attribute's cells and of its pairs, for the columns of a subset.

        They are Σ_D λ_D (1 − [a ∉ D] Π κ) and Σ_{D∋a} λ_D Π κ, over the attributes other than a.
        """
        laws = cast(PairLaws, self.weights.laws)
        attributes = [a, *high, *subset]
        cell_part, pair_part = np.ones([1] * len(subset)), np.zeros([1] * len(subset))
        for part in _subsets([*high, *subset]):
            product = self._nearness(part, high, subset)
            cell_part = cell_part - float(laws.type_weights @ self._chances(attributes, part)) * product
            pair_part = pair_part + float(laws.type_weights @ self._chances(attributes, [a, *part])) * product
        return cell_part, pair_part

    def _moved_laws(self, marginals: _Marginals, power: float) -> PairLaws:
        """Return laws that follow the costs of pairs."""
        x, laws = self.x, cast(PairLaws, self.weights.laws)
        laws_by_kind = []
        for k, kind in enumerate(x.kinds):
            if kind.is_exchangeable:
                laws_by_kind.append(laws.laws[k])
                continue
            p = laws.margins[k]
            basis = self.bases[k] / np.sqrt(p)[:, None]
            cell_part, pair_part = (basis @ m[k] @ basis.T for m in (marginals.cell_costs, marginals.core))
            mass = sum(marginals.rest[k].values())
            for (i, s), weight in marginals.rest[k].items():
                outside = _outside(self.parts[i][s].absolute, self.bases[k]) / np.sqrt(np.multiply.outer(p, p))
                scale = weight / (mass * max(self.parts[i][s].tau, 1e-300))
                cell_part = cell_part + marginals.outside[k][0] * scale * outside
                pair_part = pair_part + marginals.outside[k][1] * scale * outside
            each = np.diag(cell_part)
            if not laws.laws[k].size:
                laws_by_kind.append(_followed(p * np.maximum(each - pair_part @ p, 0), p))
                continue
            law = laws.laws[k]
            cost = (each[:, None] + each) / 2 - pair_part
            total = float((law * cost).sum())
            if not total > 0:
                laws_by_kind.append(law)
                continue
            # Two equal values cost nothing, but they make records equal, and the factor 1/δ takes that back.
            tr = self.agreement
            others = laws.types - np.eye(len(x.kinds), dtype=np.intp)[k]
            equal = np.where(others >= 0, tr ** np.maximum(others, 0), 0.0).prod(axis=1)
            equal_weight = float(laws.type_weights @ (laws.types[:, k] / len(kind.axes) * equal)) / self.differ
            change = cost / total + equal_weight / 2 * (np.eye(len(p)) - tr[k])
            law = law * np.clip(change, 1e-3, 50) ** power
            law = np.maximum(law / law.sum(), MIN_PAIR)
            laws_by_kind.append((law + law.T) / (2 * law.sum()))
        types = (
            laws.type_weights * np.maximum(marginals.types / float(laws.type_weights @ marginals.types), 1e-3) ** power
        )
        types = np.maximum(types / types.sum(), 1e-9)
        return x.pair_laws(laws_by_kind, types / types.sum())

    def step(self) -> tuple[float, DualWeights]:
        """Return the bound's root, and weights that follow the marginals of abs(M)."""
        x, weights = self.x, self.weights
        marginals = _Marginals(
            core=[np.zeros((r, r)) for r in self.ranks],
            rest=[{} for _ in x.kinds],
            rows=[{s: np.zeros_like(axis.core) for s, axis in parts.items()} for parts in self.parts],
            high=[dict.fromkeys(parts, 0.0) for parts in self.parts],
            theta=[np.zeros(len(f.tables)) for f in x.families],
            cell_costs=[np.zeros((r, r)) for r in self.ranks],
            outside=[np.zeros(2) for _ in x.kinds],
            types=np.zeros(0 if weights.laws is None else len(weights.laws.type_weights)),
        )
        all_classes = classes(x, weights)
        value = sum(count * self._collect(h, count, marginals) for h, count in all_classes)
        laws = None if weights.laws is None else self._moved_laws(marginals, LAW_POWER)
        p = list(weights.p)
        if laws is not None:
            p = [np.zeros(0) if k.is_exchangeable else v for k, v in zip(x.kinds, laws.margins, strict=True)]
        for k, kind in enumerate(x.kinds):
            if kind.is_exchangeable or laws is not None:
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
            return value, DualWeights(p, weights.q, weights.theta, laws)
        theta = marginals.theta
        if len(all_classes) and x.symmetric:
            # Equal weights within a family let one set stand for all of its kinds.
            theta = [np.full(len(shares), shares.mean()) for shares in theta]
        total = sum(float(shares.sum()) for shares in theta)
        return value, DualWeights(p, q, [np.maximum(shares / total, 1e-12) for shares in theta], laws)

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
        if stack.roots is not None:
            self._collect_pairs(high, count, stack, absolute, out)
            inverse *= np.multiply.outer(stack.roots, stack.roots)
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
        if stack.roots is None:
            self._collect_cells(high, count, stack, absolute, out)
        return value

    def _collect_cells(
        self, high: frozenset[int], count: int, stack: _Stack, absolute: Floats, out: _Marginals
    ) -> None:
        """Add the marginals of one set's stack on the cells, inside the cores, by kind."""
        # Count every attribute at its first column, and then take off the parts in other columns.
        trace = float(np.trace(absolute))
        for k, kind in enumerate(self.x.kinds):
            here = [a for a in kind.axes if a not in high]
            if self.ranks[k] > 1:
                out.core[k][0, 0] += count * trace * len(here)
        for subset, begin in stack.places.items():
            inside = self._inside(subset)
            block = begin + np.arange(math.prod(inside)).reshape(inside)
            for j, a in enumerate(subset):
                k = self.x.kind[a]
                lines = np.moveaxis(block, j, -1).reshape(-1, inside[j])
                below = stack.places[tuple(b for b in subset if b != a)] + np.arange(len(lines))
                diagonal = absolute[lines[:, :, None], lines[:, None, :]].sum(axis=0)
                cross = absolute[below[:, None], lines].sum(axis=0)
                out.core[k][1:, 1:] += count * diagonal
                out.core[k][0, 1:] += count * cross
                out.core[k][1:, 0] += count * cross
                out.core[k][0, 0] -= count * float(np.trace(diagonal))


@dataclass(eq=False)
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
    roots: Floats | None = None
    """γ_H^½ of every column, with laws of pairs; the Gram matrix contains it."""


@dataclass(frozen=True, eq=False)
class _Marginals:
    """The marginals of abs(M): inside and outside the cores by kind, on rows by family and slot, and by table.

    With laws of pairs, `core` has the costs of pairs by kind, and `cell_costs` those of cells. `outside` has the traces
    of both outside the cores, and `types` the costs by type of D.
    """

    core: list[Floats]
    rest: list[dict[tuple[int, Slot], float]]
    rows: list[dict[Slot, Floats]]
    high: list[dict[Slot, float]]
    theta: list[Floats]
    cell_costs: list[Floats]
    outside: list[Floats]
    types: Floats


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
