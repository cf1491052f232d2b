"""Product form: many structured attributes in one table, planned without their joint cells.

**Symbols** (docs/mathematics/notation.md).

| letter | meaning |
|---|---|
| T, s_T | a sector of the attributes, and its precision |
| H_a, w_a | the measurement of attribute a, and the vector that H_a maps to 0, scaled to 1ᵀw_a = 1 |
| K_a | the inverse of H_aᵀH_a on the complement of w_a |
| E | an orthonormal basis of the complement of 1 |
| R, r_j | a view of the attribute, and its row j |
| p, q, θ | dual weights of cells, of rows and of tables |

**Statement.** Sector T of the attributes measures (⊗_{a∈T} H_a ⊗_{a∉T} 1ᵀ) x at precision s_T. One attribute
contributes

    g(i) = ‖K^−½ Eᵀ(e_i − w)‖² of a record,   f = R w and v(j) = ‖K^½ Eᵀ r_j‖² of row j of a view R.

All costs and variances are sums of products of these:

    Δ² = Σ_T s_T Π_{a∈T} max g,

    var_t(j) = Σ_{T⊆t} s_T⁻¹ Π_{a∈T} v_a(j_a) Π_{a∈t∖T} f_a(j_a)².

An attribute that every table shows is in every T: E = I and w = 0. Exchangeable attributes have w = 1/n, and H is their
centring.

**Method.** At fixed s, the problem in one (w, K) is jointly convex and has a closed solution. The dual weights p, q and
θ follow the multipliers. With one product q of rows for a kind of tables, the worst row is some per cent above the
average. A mixture of a few products removes this difference (`MIXTURE_PRODUCTS`).

**Trust.** Nothing found here is believed. The price comes from the integers, and the bound from
:mod:`fitnoise.solving.cores`.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import final

import numpy as np
import scipy.linalg as sl
from numpy.typing import NDArray

from fitnoise.algebra import rules
from fitnoise.algebra.operators import Operator
from fitnoise.errors import PlanError, WorkloadError
from fitnoise.kernel.arrays import Floats, Indices
from fitnoise.solving import pair_laws
from fitnoise.solving.certificates import Evidence
from fitnoise.solving.pair_laws import PairLaws
from fitnoise.solving.sectors import Decomposition

MIXTURE_PRODUCTS = 4
"""The number of products in the mixture of row weights of one family."""

FLOOR = 1e-9
"""The smallest share of a weight of cells or rows, before it is normalised."""

STOP_RATIO_GAP = 5e-4
"""The gap between the value and that of the weights at which the search stops: no product form does much better."""


CONVERGED_GAP = 1e-6
"""The gap at which the search stops if only cells are weighed, because the weights of rows are fixed: there it
converges."""

ROUNDING_SHARE = 1e-10
"""The smallest f² of a row, as a share of ‖r‖²/n'. For changes it would be 0, but integers round w to some 16 bits."""

MAX_STALLED_STEPS = 80
"""The number of steps without any gain after which a search ends."""


@final
@dataclass(frozen=True, eq=False)
class AttributeKind:
    """Interchangeable attributes: of equally many values, with the same views in tables of equal form.

    axes: The attributes of the kind.
    is_exchangeable: True for exchangeable attributes.
    always: True if every table shows them.
    merged: The class of every value, (n,); no view distinguishes the values of a class.
    views: The queries about the classes, by number, (m, n') each.
    """

    axes: tuple[int, ...]
    is_exchangeable: bool
    always: bool
    merged: Indices
    views: dict[int, Floats]

    @property
    def size(self) -> int:
        """n', the number of classes."""
        return int(self.merged.max()) + 1

    @property
    def contrasts(self) -> Floats:
        """E (n', n' − 1), an orthonormal basis of the complement of 1; I for `always`, empty if exchangeable."""
        if self.is_exchangeable:
            return np.zeros((0, 0))
        return np.eye(self.size) if self.always else np.asarray(sl.helmert(self.size).T)


@final
@dataclass(frozen=True, eq=False)
class ProductTableFamily:
    """Tables of one target that show attributes of the same kinds in the same views.

    A slot is one of these pairs of a kind and a view. The tables differ in the attribute that fills a slot.

    slots: The kind and the view of each of the s slots, by number. Attributes of one value have no slot.
    tables: The numbers of the T tables, (T,).
    axes: The attribute in each slot of each table, (T, s).
    variance: The target variance, one for all tables.
    """

    slots: tuple[tuple[int, int], ...]
    tables: Indices
    axes: Indices
    variance: float

    @cached_property
    def masks(self) -> list[tuple[int, ...]]:
        """All subsets of the slots."""
        return subsets(len(self.slots))


@final
@dataclass(frozen=True, eq=False)
class ProductProblem:
    """Tables by axis: kinds of attributes, and families of tables.

    kinds: The kinds of all axes of two values or more that a table shows.
    kind: For each axis, the index of its kind in `kinds`; −1 for an axis of one value, or shown by no table.
    families: The families of the tables.
    tables: The number of tables.
    operators: The operator of each view, by number of the view; None for the values themselves.
    looser: For each view, by number, the target variances of its m rows as multiples of the tightest, (m,). It is 1,
        (1,), if targets do not vary along the view. Views in kinds and all variances are relative to it.
    shares: θ of every table, of mass 1, if the target is the sum of variances over targets, (tables,). Each row of a
        table then has an equal part of the table's share. None gives every row its own target.
    replaced: True if records are replaced, so that their number is public: the bound takes nothing for it.
    """

    kinds: tuple[AttributeKind, ...]
    kind: tuple[int, ...]
    families: tuple[ProductTableFamily, ...]
    tables: int
    operators: tuple[Operator | None, ...]
    looser: tuple[Floats, ...]
    shares: Floats | None = None
    replaced: bool = False

    @classmethod
    def from_decomposition(
        cls,
        d: Decomposition,
        weights: Floats | None = None,
        looser: Mapping[int, tuple[int, Floats]] | None = None,
        *,
        replaced: bool = False,
    ) -> ProductProblem:
        """Return the problem of a decomposition by axis.

        Args:
            d: The decomposition, whose targets are those of the tightest row of every table.
            weights: ω of every table, if the target is the sum of all variances.
            looser: For targets that vary along an attribute, by table: the place of its axis among the table's axes.
                Then the multiples of the rows along it, (m,), as in `looser` of the class.
            replaced: True if records are replaced, so that their number is public.

        Raises:
            WorkloadError: The queries about an attribute do not distinguish its values, or leave counts undetermined.
        """
        numbered: dict[tuple[Operator | None, bytes], int] = {}
        by_view: list[Floats] = []
        listed: list[tuple[int, float, list[tuple[int, int]]]] = []
        for g in d.tables:
            for t, axes, c in zip(g.tables.tolist(), g.axes.tolist(), g.variances[:, 0].tolist(), strict=True):
                varies, relative_targets = (looser or {}).get(t, (-1, np.ones(1)))
                views = []
                for position, view in enumerate(g.views):
                    relative = relative_targets if position == varies else np.ones(1)
                    views.append(numbered.setdefault((view, relative.tobytes()), len(numbered)))
                    # A longer dictionary means that the view was new.
                    by_view += [relative] if len(numbered) > len(by_view) else []
                axis_views = [(a, v) for a, v in zip(axes, views, strict=True) if d.sizes[a] > 1]
                listed.append((t, c, axis_views))
        # An attribute of one value splits nothing, so axes of size 1 are left out of the views above.
        used: list[set[int]] = [set() for _ in d.sizes]
        for _, _, axis_views in listed:
            for a, v in axis_views:
                used[a].add(v)
        often = Counter(a for _, _, axis_views in listed for a, _ in axis_views)
        values = numbered.get((None, np.ones(1).tobytes()), -1)
        # An attribute that is only shown value by value, with equal targets, has interchangeable values.
        exchangeable = [views_used <= {values} for views_used in used]
        always = [often[a] == len(listed) and not exchangeable[a] for a in range(len(d.sizes))]
        start = [(n, tuple(sorted(views_used)), x) for n, views_used, x in zip(d.sizes, used, always, strict=True)]
        colours = _refined(start, listed)
        # Attributes of one value, or shown by no table, have no kind.
        order = sorted({c for c, n, views_used in zip(colours, d.sizes, used, strict=True) if n > 1 and views_used})
        kind = tuple(order.index(c) if c in order else -1 for c in colours)
        operators = [v for v, _ in numbered]
        kinds = []
        for k in range(len(order)):
            axes = tuple(a for a, x in enumerate(kind) if x == k)
            a = axes[0]
            kind_views = {v: (operators[v], by_view[v]) for v in sorted(used[a])}
            kinds.append(
                _kind(
                    axes, d.sizes[a], kind_views, d.exchangeable[a], is_exchangeable=exchangeable[a], always=always[a]
                )
            )
        # Tables of one family differ only in which attributes of a kind they show: one set of row weights is for all of
        # them.
        families: dict[tuple[float, tuple[tuple[int, int], ...]], list[tuple[int, list[int]]]] = {}
        for t, c, axis_views in listed:
            row = sorted((kind[a], v, a) for a, v in axis_views)
            families.setdefault((c, tuple((k, v) for k, v, _ in row)), []).append((t, [a for _, _, a in row]))
        built = [
            ProductTableFamily(
                slots, np.array([t for t, _ in rows]), np.array([a for _, a in rows]).reshape(len(rows), -1), c
            )
            for (c, slots), rows in families.items()
        ]
        shares = None if weights is None else weights * d.variances / float(weights @ d.variances)
        return cls(
            tuple(kinds),
            kind,
            families=tuple(built),
            tables=len(listed),
            operators=tuple(operators),
            looser=tuple(by_view),
            shares=shares,
            replaced=replaced,
        )

    def mixed(self, copies: int) -> ProductProblem:
        """Return the problem with `copies` of every table, whose row weights are then a mixture of products.

        Equal views of two attributes of one table have numbers of their own, so that their weights may differ. Table t
        of copy j has the number t + j · tables.
        """
        if copies == 1:
            return self
        numbers = len(self.operators)
        positions = max((len(f.slots) for f in self.families), default=1)
        families = tuple(
            ProductTableFamily(
                tuple((k, v if self.kinds[k].is_exchangeable else v + i * numbers) for i, (k, v) in enumerate(f.slots)),
                f.tables + j * self.tables,
                f.axes,
                f.variance,
            )
            for j in range(copies)
            for f in self.families
        )
        kinds = tuple(
            replace(kind, views={v + i * numbers: r for v, r in kind.views.items() for i in range(positions)})
            for kind in self.kinds
        )
        return replace(
            self,
            kinds=kinds,
            families=families,
            tables=copies * self.tables,
            operators=self.operators * positions,
            looser=self.looser * positions,
        )

    def pair_laws(self, laws: Sequence[Floats], type_weights: Floats) -> PairLaws:
        """Return laws of pairs.

        laws: By kind a matrix Q, or p for an attribute of many values; for exchangeable kinds it is not used.
        type_weights: λ by type of D.
        """
        none = np.zeros((0, 0))
        matrices, margins = [], []
        for kind, law in zip(self.kinds, laws, strict=True):
            matrices.append(none if kind.is_exchangeable or law.ndim == 1 else law)
            margins.append(_uniform(kind.size) if kind.is_exchangeable else law if law.ndim == 1 else law.sum(axis=1))
        same = tuple(kind.is_exchangeable for kind in self.kinds)
        return PairLaws(tuple(len(k.axes) for k in self.kinds), tuple(matrices), tuple(margins), type_weights, same)

    def for_evidence(self, evidence: Evidence) -> ProductProblem:
        """Return the problem that evidence weighs: laws of pairs can come with a mixture of row weights."""
        if evidence.kinds is None or self.shares is not None:
            return self
        return self.mixed(max(1, len(evidence.numbers) // max(self.tables, 1)))

    @cached_property
    def shapes(self) -> Counter[int]:
        """The number of sets of attributes that some table shows together, by size, without exchangeable attributes."""
        wide = [k >= 0 and not self.kinds[k].is_exchangeable for k in self.kind]
        rows = {tuple(a for a in row if wide[a]) for f in self.families for row in f.axes.tolist()}
        sets = {frozenset(part) for row in rows for k in range(len(row) + 1) for part in itertools.combinations(row, k)}
        return Counter(map(len, sets))

    @cached_property
    def symmetric(self) -> bool:
        """True if every exchange of two attributes of one kind maps the tables, views and targets onto themselves."""
        listed = Counter(
            (f.variance, frozenset(zip(row, (v for _, v in f.slots), strict=True)))
            for f in self.families
            for row in f.axes.tolist()
        )
        for kind in self.kinds:
            for a, b in itertools.pairwise(kind.axes):
                swap = {a: b, b: a}
                image = Counter({(c, frozenset((swap.get(x, x), v) for x, v in t)): n for (c, t), n in listed.items()})
                if image != listed:
                    return False
        return True


def _refined(
    start: Sequence[tuple[object, ...]], listed: Sequence[tuple[int, float, list[tuple[int, int]]]]
) -> list[int]:
    """Return the coarsest stable colouring: attributes of one colour appear equally in tables of equal colours.

    start: The first colour of each attribute.
    listed: For each table its number, its target, and its attributes with their views.
    """
    names = {x: i for i, x in enumerate(sorted(set(start)))}
    colours = [names[x] for x in start]
    while True:
        seen: list[Counter[tuple[object, ...]]] = [Counter() for _ in start]
        for _, c, axis_views in listed:
            pattern = tuple(sorted((colours[a], v) for a, v in axis_views))
            for a, v in axis_views:
                seen[a][(c, v, pattern)] += 1
        keys = [(colour, tuple(sorted(counts.items()))) for colour, counts in zip(colours, seen, strict=True)]
        numbers = {x: i for i, x in enumerate(sorted(set(keys)))}
        # Colours are only ever split, so an equal number of colours means that none was split.
        if len(numbers) == len(set(colours)):
            return colours
        colours = [numbers[x] for x in keys]


def _kind(
    axes: tuple[int, ...],
    n: int,
    views_by_table: dict[int, tuple[Operator | None, Floats]],
    name: str,
    *,
    is_exchangeable: bool,
    always: bool,
) -> AttributeKind:
    if is_exchangeable:
        return AttributeKind(axes, is_exchangeable=True, always=False, merged=np.arange(n), views={})
    views = {
        # Rows divided by the root of their multiple have equal relative targets.
        v: (np.eye(n) if x is None else rules.dense(x).astype(np.float64)) / np.sqrt(looser)[:, None]
        for v, (x, looser) in views_by_table.items()
    }
    stacked = np.concatenate(list(views.values()))
    _, cells, merged = np.unique(stacked, axis=1, return_index=True, return_inverse=True)
    order = np.argsort(cells)  # classes in the order of their first values
    merged = np.argsort(order)[merged.ravel()]
    cells = np.sort(cells)
    # A table without the attribute adds up its values, which is one more query.
    queries = stacked[:, cells] if always else np.vstack([np.ones(len(cells)), stacked[:, cells]])
    if len(cells) == 1 or np.linalg.matrix_rank(queries) < len(cells):
        raise WorkloadError(
            "product-groups-dependent",
            f"The queries about {name!r} do not determine the counts of its {len(cells)} groups of values.",
            "A plan in product form needs these counts.",
            f"Show {name!r} value by value too, or by groups that do not overlap.",
            "Nothing was planned.",
            place=name,
        )
    return AttributeKind(
        axes, is_exchangeable=False, always=always, merged=merged, views={v: x[:, cells] for v, x in views.items()}
    )


# --- weights ----------------------------------------------------------------------------------------


@final
@dataclass(eq=False)
class DualWeights:
    """Dual weights that are products: p by kind, q by family and slot, each of mass 1, and θ by family.

    θ has one weight for each table, and all families together have mass 1. The weights of exchangeable attributes are
    uniform, and not stored. Where records are replaced, p can be the margins of laws of pairs.
    """

    p: list[Floats]
    q: list[dict[tuple[int, int], Floats]]
    theta: list[Floats]
    laws: PairLaws | None = None

    @classmethod
    def uniform(cls, x: ProductProblem) -> DualWeights:
        """Return the weights from which a search starts."""
        p = [np.full(0 if k.is_exchangeable else k.size, 1 / k.size) for k in x.kinds]
        q = [
            {s: _uniform(len(x.kinds[s[0]].views[s[1]])) for s in f.slots if not x.kinds[s[0]].is_exchangeable}
            for f in x.families
        ]
        theta = np.full(x.tables, 1 / x.tables) if x.shares is None else x.shares
        return cls(p, q, [theta[f.tables] for f in x.families])

    def evidence(self, x: ProductProblem) -> Evidence:
        """Return evidence: `cells` has p by kind, then q by family; `numbers` has θ by table. A sum has no q and no θ.

        With laws of pairs, the upper triangle of a matrix replaces its margin p, and `kinds` has λ.
        """
        p, kinds = list(self.p), None
        if self.laws is not None:
            kinds = self.laws.type_weights
            p = [q[np.triu_indices(len(q))] if q.size else v for q, v in zip(self.laws.laws, p, strict=True)]
        if x.shares is not None:
            return Evidence(np.concatenate([np.zeros(0), *p]), np.zeros(0), kinds=kinds)
        theta = np.empty(x.tables)
        for f, weights in zip(x.families, self.theta, strict=True):
            theta[f.tables] = weights
        cells = np.concatenate([np.zeros(0), *p, *(q[s] for q in self.q for s in sorted(q))])
        return Evidence(cells, theta, kinds=kinds)

    @classmethod
    def read(cls, x: ProductProblem, evidence: Evidence) -> DualWeights:
        """Return the weights that a plan stores.

        Raises:
            PlanError: Weights are negative, not finite, of the wrong number or of no mass, or they weigh pairs.
        """
        out = cls.uniform(x)
        chosen = x.shares is None
        type_weights = evidence.kinds if x.replaced else None
        triangles = [
            _triangle(len(p)) if type_weights is not None and pair_laws.has_matrix(len(p)) else p for p in out.p
        ]
        uniform = [*triangles, *(q[s] for q in out.q for s in sorted(q) if chosen)]
        count, tables = sum(map(len, uniform)), x.tables if chosen else 0
        stated, theta = evidence.cells, evidence.numbers
        fits = evidence.pairs is None and stated.shape == (count,) and theta.shape == (tables,)
        axes = tuple(len(kind.axes) for kind in x.kinds)
        types = np.zeros(0) if type_weights is None else type_weights
        fits = fits and (type_weights is None or types.shape == (len(pair_laws.differences(axes)),))
        all_weights = np.concatenate([stated, theta, types]) if fits else stated
        if not (fits and np.isfinite(all_weights).all() and min([0, *all_weights]) >= 0):
            raise PlanError(
                "product-weights-unusable",
                f"The dual weights are not {count} numbers for cells and {tables} for tables, each finite "
                "and at least 0.",
                "",
                "Verify an unaltered plan, or plan again.",
                "No bound was proven.",
            )
        parts = np.split(stated, np.cumsum([len(v) for v in uniform])[:-1]) if uniform else []
        weightless = (chosen and theta.sum() <= 0) or (type_weights is not None and types.sum() <= 0)
        if weightless or any(v.sum() <= 0 for v in parts if len(v)):
            raise PlanError(
                "product-weights-zero",
                "The dual weights of the tables, or those of one factor, are all 0.",
                "",
                "Verify an unaltered plan, or plan again.",
                "No bound was proven.",
            )
        # A bound holds for any weights of mass 1. A plan's weights have lost digits in its file, so they are normalised
        # again.
        normalised = iter([v / v.sum() if len(v) else v for v in parts])
        p = [next(normalised) for _ in out.p]
        laws = None
        if type_weights is not None:
            matrices = [_symmetric(v, len(u)) for v, u in zip(p, out.p, strict=True)]
            laws = x.pair_laws([q if q.size else v for q, v in zip(matrices, p, strict=True)], types / types.sum())
            p = [v[: len(u)] for v, u in zip(laws.margins, out.p, strict=True)]
        if not chosen:
            return cls(p, out.q, out.theta, laws)
        q = [{s: next(normalised) for s in sorted(slots)} for slots in out.q]
        return cls(p, q, [theta[f.tables] / theta.sum() for f in x.families], laws)


def _triangle(n: int) -> Floats:
    """Return uniform weights of the upper triangle of a symmetric matrix."""
    return _uniform(n * (n + 1) // 2) if n else np.zeros(0)


def _symmetric(triangle: Floats, n: int) -> Floats:
    """Return the symmetric matrix of mass 1 with an upper triangle; an empty one for a list of n numbers."""
    if not pair_laws.has_matrix(n) or not n:
        return np.zeros((0, 0))
    out = np.zeros((n, n))
    out[np.triu_indices(n)] = triangle
    out = out + np.triu(out, 1).T
    # A value that no pair has would divide by 0.
    out = np.maximum(out / out.sum(), FLOOR**2)
    return np.asarray(out / out.sum())


def _uniform(n: int) -> Floats:
    return np.full(n, 1 / n)


# --- the search -------------------------------------------------------------------------------------


@final
@dataclass(eq=False)
class RealProductStrategy:
    """A strategy in product form, before its numbers are made integers.

    w, k: The w and K of each kind, (n',) and (n' − 1, n' − 1); K is (n', n') if every table shows the kind. Both are
        empty for exchangeable kinds.
    precisions: s_T by set of attributes.
    value: Δ² at which all targets are met, or at which the sum of `shares` times variance over target is 1.
    """

    w: list[Floats]
    k: list[Floats]
    precisions: dict[tuple[int, ...], float]
    value: float


@dataclass(eq=False)
class _Family:
    """A family in a search: the sectors of its tables, and its weights.

    table: The family.
    masks: The subsets of its slots that are sectors: all that contain every attribute that all tables show.
    inside: True if a mask contains a slot, (masks, slots).
    sectors: The number of the sector of each table and mask, (tables, masks).
    q: The weights of rows by slot, each of mass 1.
    theta: The weight of each table, (tables,).
    hi, lo: The averages of v and of f² over the rows of each slot, (slots,).
    """

    table: ProductTableFamily
    masks: list[tuple[int, ...]]
    inside: NDArray[np.bool_]
    sectors: Indices
    q: dict[tuple[int, int], Floats]
    theta: Floats
    hi: Floats = field(default_factory=lambda: np.zeros(0))
    lo: Floats = field(default_factory=lambda: np.zeros(0))

    def products(self, hi: Floats, lo: Floats) -> Floats:
        """Return Π hi over the slots of each mask times Π lo over the others."""
        return np.asarray(np.where(self.inside, hi, lo).prod(axis=1))

    def exclude_slot(self, i: int, hi: Floats, lo: Floats) -> Floats:
        """Return these products without one slot."""
        others = [j for j in range(self.inside.shape[1]) if j != i]
        return np.asarray(np.where(self.inside[:, others], hi[others], lo[others]).prod(axis=1))


class ProductSearch:
    """The ascent of the dual weights, with the strategy that is best for them.

    Args:
        x: The problem.
        mixed: The number of products in the mixture of each family's row weights.
    """

    def __init__(self, x: ProductProblem, mixed: int = 1) -> None:
        self.x = x
        self.ids: dict[tuple[int, ...], int] = {}
        self.families: list[_Family] = []
        uniform = DualWeights.uniform(x)
        self.p = uniform.p
        for f, q, theta in zip(x.families, uniform.q, uniform.theta, strict=True):
            masks = [m for m in f.masks if all(i in m or not x.kinds[k].always for i, (k, _) in enumerate(f.slots))]
            sets_by_table = [[tuple(sorted(row[i] for i in m)) for m in masks] for row in f.axes.tolist()]
            sectors = np.array([[self.ids.setdefault(t, len(self.ids)) for t in row] for row in sets_by_table])
            inside = np.array([[i in m for i in range(len(f.slots))] for m in masks]).reshape(len(masks), -1)
            # On one axis, a mixture of products is a product.
            copies = mixed if len(q) and len(f.slots) > 1 else 1
            for j in range(copies):
                rows = {s: tilted(v, j, i, copies) for i, (s, v) in enumerate(sorted(q.items()))}
                self.families.append(_Family(f, masks, inside, sectors, rows, theta / copies))
        self.count = np.zeros((len(self.ids), len(x.kinds)))
        for t, i in self.ids.items():
            for a in t:
                self.count[i, x.kind[a]] += 1
        self.e = [k.contrasts for k in x.kinds]
        self.w = [
            np.zeros(0) if k.is_exchangeable else np.full(k.size, 0.0 if k.always else 1 / k.size) for k in x.kinds
        ]
        self.k = [np.eye(e.shape[1]) for e in self.e]
        self.views = [{v: (r, r @ e) for v, r in k.views.items()} for k, e in zip(x.kinds, self.e, strict=True)]
        self._measure()
        self._weigh()

    def _measure(self) -> None:
        """Compute the cost of every value (g), and f² and v of every row, kind by kind."""
        self.g: list[Floats] = []
        self.f: list[dict[int, Floats]] = []
        self.v: list[dict[int, Floats]] = []
        for kind, e, w, k, views in zip(self.x.kinds, self.e, self.w, self.k, self.views, strict=True):
            if kind.is_exchangeable:
                n = kind.size
                self.g.append(np.array([(n - 1) / n]))
                self.f.append({})
                self.v.append({})
                continue
            y = e - w @ e
            self.g.append(np.einsum("ij,ij->i", y, np.linalg.solve(k, y.T).T))
            # The integers of H round w: R w is not exactly 0, and sectors that only such rows reach have finite noise.
            min_share = 0.0 if kind.always else ROUNDING_SHARE / kind.size
            self.f.append({v: np.maximum((r @ w) ** 2, min_share * (r**2).sum(axis=1)) for v, (r, _) in views.items()})
            self.v.append({v: np.einsum("ij,ij->i", re @ k, re) for v, (_, re) in views.items()})

    def _weigh(self) -> None:
        """Compute averages, the precisions that are best for them, and the weight of each part of a kind."""
        kinds = self.x.kinds
        above = np.zeros(len(self.ids))
        for f in self.families:
            pairs = [self._average(f, s) for s in f.table.slots]
            f.hi, f.lo = np.array([a for a, _ in pairs]), np.array([b for _, b in pairs])
            products = f.products(f.hi, f.lo)
            np.add.at(above, f.sectors, f.theta[:, None] / f.table.variance * products)
        self.c = np.array([g[0] if k.is_exchangeable else p @ g for k, p, g in zip(kinds, self.p, self.g, strict=True)])
        cost = (self.c**self.count).prod(axis=1)
        self.above = above
        self.s = np.sqrt(above / cost)
        self.nu = float(np.sqrt(above * cost).sum())
        self.a = (self.count * (self.s * cost)[:, None]).sum(axis=0) / self.c
        self.b: list[dict[tuple[int, int], float]] = []
        self.phi: list[dict[tuple[int, int], float]] = []
        for f in self.families:
            noise = (f.theta[:, None] / f.table.variance / self.s[f.sectors]).sum(axis=0)
            b, phi = dict.fromkeys(f.q, 0.0), dict.fromkeys(f.q, 0.0)
            for i, s in enumerate(f.table.slots):
                if s in f.q:
                    slope = f.exclude_slot(i, f.hi, f.lo) * noise
                    b[s] += float(slope[f.inside[:, i]].sum())
                    phi[s] += float(slope[~f.inside[:, i]].sum())
            self.b.append(b)
            self.phi.append(phi)

    def _average(self, f: _Family, slot: tuple[int, int]) -> tuple[float, float]:
        k, v = slot
        if self.x.kinds[k].is_exchangeable:
            n = self.x.kinds[k].size
            return (n - 1) / n, 1 / n**2
        return float(f.q[slot] @ self.v[k][v]), float(f.q[slot] @ self.f[k][v])

    def improve(self) -> None:
        """Set the best w and K of every kind for the current weights and precisions."""
        for i, kind in enumerate(self.x.kinds):
            if kind.is_exchangeable:
                continue
            e, p = self.e[i], self.p[i]
            rows = {v: np.zeros(len(r)) for v, (r, _) in self.views[i].items()}
            means = {v: np.zeros(len(r)) for v, (r, _) in self.views[i].items()}
            for f, b, phi in zip(self.families, self.b, self.phi, strict=True):
                for (k, v), q in f.q.items():
                    if k == i:
                        rows[v] += b[k, v] * q
                        means[v] += phi[k, v] * q
            gram = np.asarray(sum(re.T @ (rows[v][:, None] * re) for v, (_, re) in self.views[i].items()))
            if not kind.always:
                mean = np.asarray(sum(r.T @ (means[v][:, None] * r) for v, (r, _) in self.views[i].items()))
                inner = self.a[i] * np.linalg.inv(self.k[i]) + e.T @ mean @ e
                self.w[i] = p + e @ np.linalg.solve(inner, -e.T @ (mean @ p))
            y = e - self.w[i] @ e
            self.k[i] = geometric_mean(self.a[i] * (y.T @ (p[:, None] * y)), gram)
        self._measure()
        self._weigh()

    def ascend(self) -> None:
        """Move the weights one step towards the costliest cells and the least accurate rows."""
        for i, kind in enumerate(self.x.kinds):
            if not kind.is_exchangeable:
                self.p[i] = _normalised(self.p[i] * self.g[i] / self.c[i])
        if self.x.shares is not None:
            return
        for f, b, phi in zip(self.families, self.b, self.phi, strict=True):
            for (k, v), q in f.q.items():
                row_variances = b[k, v] * self.v[k][v] + phi[k, v] * self.f[k][v]
                f.q[k, v] = _normalised(q * row_variances / (q @ row_variances))
            worst = f.products(f.hi, f.lo) / self.s[f.sectors]
            # A weight of 0 would stay 0.
            f.theta = np.maximum(f.theta * worst.sum(axis=1) / f.table.variance / self.nu, 1e-12)
        total = sum(f.theta.sum() for f in self.families)
        for f in self.families:
            f.theta = f.theta / total

    def value(self) -> float:
        """Return Δ² of the current strategy, scaled to meet its worst target, or the sum; exact except for rounding."""
        max_costs = self._max_record_cost()
        if self.x.shares is not None:
            return float(np.sqrt(self.above * max_costs).sum()) ** 2
        return float((self.s * max_costs).sum()) * max(self._worst(f) for f in self.families)

    def _max_record_cost(self) -> Floats:
        """Return the cost of each sector for a record with the costliest value of every attribute, at precision 1."""
        max_costs = np.array([g.max() for g in self.g])
        return np.asarray((max_costs**self.count).prod(axis=1))

    def _worst(self, f: _Family) -> float:
        """Return the largest variance over target of a family's tables."""
        parts = []
        for k, v in f.table.slots:
            n = self.x.kinds[k].size
            is_exchangeable = self.x.kinds[k].is_exchangeable
            parts.append(
                (np.array([(n - 1) / n]), np.array([n**-2.0]))
                if is_exchangeable
                else pareto_front(self.v[k][v], self.f[k][v])
            )
        noise = 1 / self.s[f.sectors]
        distinct = np.unique((noise / noise.max()).round(12), axis=0)  # rounding decides only which is tried
        return float(worst(parts, f.masks, distinct).max() * noise.max() / f.table.variance)

    def run(self, steps: int, report_progress: Callable[[float, float], None] | None = None) -> RealProductStrategy:
        """Return the best form found in at most `steps` steps; the search also ends when gains end.

        report_progress: A function called with the best Δ² so far, and the ν² of the current weights.
        """
        close = STOP_RATIO_GAP if self.x.shares is None else CONVERGED_GAP
        self.improve()
        best = self._form(self.value())
        last = 0  # step that was better
        for step in range(1, steps + 1):
            self.ascend()
            self.improve()
            if step % 10 == 0 or step == steps:
                value = self.value()
                last = step if value < best.value * (1 - close / 50) else last
                if value < best.value:
                    best = self._form(value)
                if report_progress is not None:
                    report_progress(best.value, self.nu**2)
                if best.value <= self.nu**2 * (1 + close) or step >= last + MAX_STALLED_STEPS:
                    break
        return best

    def _form(self, value: float) -> RealProductStrategy:
        precisions = self.s if self.x.shares is None else np.sqrt(self.above / self._max_record_cost())
        s = {t: float(precisions[i]) for t, i in self.ids.items()}
        return RealProductStrategy([x.copy() for x in self.w], [x.copy() for x in self.k], s, value)

    @property
    def weights(self) -> DualWeights:
        """The weights of a search with one product for each family."""
        return DualWeights(
            [x.copy() for x in self.p], [dict(f.q) for f in self.families], [f.theta for f in self.families]
        )


def solve(
    x: ProductProblem, steps: int = 400, report_progress: Callable[[float, float], None] | None = None
) -> tuple[RealProductStrategy, DualWeights]:
    """Return a strategy in product form, and weights that prove a bound."""
    # The weights of a mixture are no products, so the bound comes from the search with one product for each family.
    one = ProductSearch(x)
    form = one.run(steps, report_progress)
    if x.shares is None and one.nu**2 * (1 + STOP_RATIO_GAP) < form.value:
        other = ProductSearch(x, MIXTURE_PRODUCTS).run(2 * steps, report_progress)
        form = min(form, other, key=lambda y: y.value)
    return form, one.weights


def subsets(n: int) -> list[tuple[int, ...]]:
    """Return all subsets of n places, small ones first."""
    return [x for k in range(n + 1) for x in itertools.combinations(range(n), k)]


def worst(parts: Sequence[tuple[Floats, Floats]], masks: Sequence[tuple[int, ...]], noise: Floats) -> Floats:
    """Return the largest variance of a row, for tables that differ only in their noise, (T,); see `variances`."""
    return np.array([variances(parts, masks, row).max() for row in noise])


def variances(parts: Sequence[tuple[Floats, Floats]], masks: Sequence[tuple[int, ...]], noise: Floats) -> Floats:
    """Return Σ_T noise_T Π_{a∈T} v_a Π_{a∉T} f_a² of all rows, (rows of each slot…); parts are (v, f²) of the slots."""
    total = np.zeros([len(v) for v, _ in parts])
    for mask, x in zip(masks, noise.tolist(), strict=True):
        term = np.array(x)
        for i, (v, f) in enumerate(parts):
            term = np.multiply.outer(term, v if i in mask else f)
        total += term
    return total


def outer(vectors: Sequence[Floats]) -> Floats:
    """Return the outer product of vectors, with an axis for each."""
    out: Floats = np.ones(())
    for v in vectors:
        out = np.multiply.outer(out, v)
    return out


def pareto_front(v: Floats, f: Floats) -> tuple[Floats, Floats]:
    """Return the pairs (v, f) that no other pair matches or exceeds in both numbers, each once."""
    # Sorted by falling f: a pair is on the front if its v exceeds that of all pairs before it. Equal f have their
    # largest v first.
    order = np.lexsort((-v, -f))
    above = np.concatenate([[-1.0], np.maximum.accumulate(v[order])[:-1]])
    front = order[v[order] > above]
    return v[front], f[front]


def tilted(q: Floats, j: int, i: int, copies: int) -> Floats:
    """Return the start of the j-th product of row weights: each leans towards other ends of the axes."""
    if copies == 1:
        return q
    # Products that start equal would stay equal, so each leans another way. The angles only have to differ.
    x = np.linspace(-1.0, 1.0, len(q))
    turn = 2 * np.pi * (j + 0.35 * i) / copies
    return _normalised(q * np.exp(2 * np.cos(turn + i) * x + np.sin(2 * turn + i) * x**2))


def _normalised(x: Floats) -> Floats:
    floored = np.maximum(x / x.sum(), FLOOR)
    return np.asarray(floored / floored.sum())


def geometric_mean(c: Floats, n: Floats) -> Floats:
    """Return C # N⁻¹, the geometric mean of two positive matrices."""
    values, turn = np.linalg.eigh((n + n.T) / 2)
    # Rows that nothing weighs make N singular; the floor keeps K finite.
    values = np.sqrt(np.maximum(values, values[-1] * 1e-14))
    root, inverse = (turn * values) @ turn.T, (turn / values) @ turn.T
    middle, axes = np.linalg.eigh(root @ c @ root)
    half = (axes * np.sqrt(np.maximum(middle, middle[-1] * 1e-15))) @ axes.T
    out = inverse @ half @ inverse
    return np.asarray((out + out.T) / 2)
