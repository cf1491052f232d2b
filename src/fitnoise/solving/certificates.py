"""Certificates: a bound that no mechanism can beat, recomputed from the problem, and the value that a plan reaches.

The value of a plan for tables is computed from its integers, outside this module. That of a Ky Fan design is computed
here.

**Statement.** By strong duality, for any p on the cells and any weights w ≥ 0 of the numbers' variances, a norm

    ν(p, w) = Σ_S mult_S ‖ diag(w)^½ R_S diag(p/r)^½ ‖_*

proves a bound for every mechanism of its kind. Here ‖·‖_* is the sum of singular values. R_S has the stacked queries
R_A / n_A of the tables A that reach sector S, with n_A joint values of A's exchangeable attributes. c_j is the target
of number j, r_o the relative budget of cell o, and prof_o the privacy cost of a record there. ω and λ are the weights
of a total and of its trade against Δ². A unit has g records.

| required | weights | proven |
|---|---|---|
| every var_j ≤ c_j | w = q/c, Σq = 1 | Δ² ≥ g² ν² |
| Σ ω var ≤ Σ ω c (total error) | w = ω / Σ ω c | Δ² ≥ g² ν² |
| Δ² + λ Σ ω var, every var_j ≤ c_j (hybrid) | w = q/c + λω, q ≥ 0 | Δ² + λ Σ ω var ≥ 2 g ν − Σq |

Here Σp = 1, after division by the sum, and Δ² = g² max_o prof_o / r_o for units of g records.

**Replace-one neighbours.** p weighs pairs of records instead, and in every sector diag(p) becomes

    Σ p (e_o e_oᵀ + e_o' e_o'ᵀ − χ_S (e_o e_o'ᵀ + e_o' e_oᵀ))

over pairs with structured cells o, o' that agree on the exchangeable attributes T. The factor is χ_S = Π_{a∈S} (1 if a
∈ T else −1/(n_a − 1)). The sum is the mean of (e_i − e_j)(e_i − e_j)ᵀ over all pairs of that kind.

**Sets of records.** If the records of a unit lie in different cells, p weighs sets τ of records (:class:`RecordSets`).
In every sector diag(p) becomes

    Σ_τ p_τ Σ_{i,j∈τ} s_i s_j E χ_S(i, j) e_i e_jᵀ.

The mean E is over the values of the two records in exchangeable attributes. The sign s is 1. Where records of a unit
are replaced, τ has records that are added and others that are removed, and s is −1 for the latter. If records differ
only in exchangeable attributes, the mean cost of a set multiplies diag(p) instead (:class:`DistinctRecords`).

**Public totals.** Let the numbers of records by attributes F be public. In a sector of attributes of F, diag(p/r)
becomes the covariance within cells of F. It is Σ_f (diag(p_f) − p_f p_fᵀ / Σp_f), with p_f the weights in the cell f.
Records that are replaced within F are pairs in one cell of F each. The sum over pairs stays, as centres cancel.

**Rounded bases.** A rank-deficient matrix of real numbers is answered over a basis of integers, as queries R + E close
to R. :func:`lower_bound` subtracts the largest contribution of E from the norm of R + E. The bound is then one for the
requested queries. With D the matrix that stands for diag(p/r) above, for each table

    ‖diag(w)^½ E D^½‖_* ≤ (rank · Σ_j w_j max_o E_jo² · tr D)^½.

**Ky Fan design.** It has its own pair of numbers. ‖Σ‖_(k) is the sum of the k largest eigenvalues. A has the queries,
with one column a_e for each cell. Let q be weights of the cells with Σq = 1, Σ any covariance of noise on the answers,
and M = A diag(q) Aᵀ. With h_k as in :func:`ky_fan_lower`,

    h_k(M)² ≤ min { ‖Σ‖_(k) : a_eᵀ Σ⁻¹ a_e ≤ 1 } ≤ ‖Σ‖_(k) · max_e a_eᵀ Σ⁻¹ a_e.

h_k is a norm of A diag(q)^½, so the contribution of E is subtracted there too: h_k(E diag(q)^½) ≤ √k (Σ_j max_e
E_je²)^½.

**Trust.** The bound holds for any weights: a solver can make it weak, never wrong. The module shares with the solvers
only the sectors, the rules of operators, and the meaning of a pair and of a set of records.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Self, final

import numpy as np
import scipy.linalg as sl
from numpy.typing import NDArray

from fitnoise.algebra import rules
from fitnoise.algebra.operators import Operator
from fitnoise.errors import PlanError
from fitnoise.kernel.arrays import Array, Floats, Indices
from fitnoise.kernel.checks import is_integer
from fitnoise.kernel.designs._base import PublicCells
from fitnoise.solving.sectors import Decomposition, SectorGroup

EPS = float(np.finfo(np.float64).eps)

SLACK = 1e-12
"""The allowance for rounding, relative to a sector's sum of singular values, in addition to 2 k ε."""

CHUNK = 2**22
"""The number of entries of a stack of matrices decomposed at once."""

NO_RECORD = -1
"""The placeholder for a pair's second cell if the neighbour lacks the record."""


@final
@dataclass(frozen=True)
class Certificate:
    """The value that the plan reaches, and a lower bound for every unbiased Gaussian linear mechanism.

    value: The minimised quantity, computed from the integers of the strategy.
    bound: The bound, computed from the dual weights.
    gap: value/bound − 1, at least 0.

    A bound that is above the value, or not positive, raises PlanError.
    """

    value: float
    bound: float

    def __post_init__(self) -> None:
        # At the optimum both numbers agree, and their rounding may put the bound slightly above the value.
        if not (0 < self.bound <= self.value * (1 + 1e-9) < float("inf")):
            raise PlanError(
                "certificate-contradicts-itself",
                "The certificate has a bound above its value, or a bound that is not positive.",
                "A certificate needs 0 < bound ≤ value.",
                "Plan again: the weights or the strategy are not what they claim to be.",
                "Nothing was proven.",
            )

    @property
    def gap(self) -> float:
        """Relative gap, at least 0."""
        return max(self.value / self.bound - 1, 0.0)


@final
@dataclass(frozen=True, eq=False)
class RecordPairs:
    """Kinds of pairs of neighbouring records.

    agree: One Python integer for each pair, with bit a set if the two agree on exchangeable attribute a.
    first_cells, second_cells: Their structured cells (n,); the second is `NO_RECORD` if one of the two data sets lacks
        the record.
    """

    agree: tuple[int, ...]
    first_cells: NDArray[np.intp]
    second_cells: NDArray[np.intp]

    @classmethod
    def from_keys(cls, keys: Iterable[tuple[int, int, int]]) -> Self:
        """Return the pairs of these (agree, first, second)."""
        listed = [(int(t), int(o), int(u)) for t, o, u in keys]
        cells = np.array([(o, u) for _, o, u in listed], dtype=np.intp).reshape(-1, 2)
        return cls(tuple(t for t, _, _ in listed), cells[:, 0].copy(), cells[:, 1].copy())

    def __len__(self) -> int:
        return len(self.agree)

    def keys(self) -> list[tuple[int, int, int]]:
        """Return (agree, first, second) of each pair."""
        return [(t, int(o), int(u)) for t, o, u in zip(self.agree, self.first_cells, self.second_cells, strict=True)]

    def chi(self, attributes: tuple[int, ...], sizes: tuple[int, ...]) -> Floats:
        """Return χ_S of every pair, (n,), for a sector S with these attributes, and their numbers of values."""
        chi: dict[int, float] = {}
        for t in set(self.agree):
            chi[t] = math.prod(1.0 if t >> a & 1 else -1 / (n - 1) for a, n in zip(attributes, sizes, strict=True))
        return np.array([chi[t] for t in self.agree])

    def reach(self, p: Floats, cells: int) -> Floats:
        """Return Σ p over the pairs that touch each structured cell, (n_o,)."""
        out = np.bincount(self.first_cells, p, minlength=cells)
        there = self.second_cells != NO_RECORD
        return np.asarray(out + np.bincount(self.second_cells[there], p[there], minlength=cells))

    def moment(self, p: Floats, chi: Floats, cells: int) -> Floats:
        """Return Σ p (e eᵀ + u uᵀ − χ (e uᵀ + u eᵀ)) over the pairs, (n_o, n_o).

        e and u are the unit vectors of a pair's two cells. A record that is added or removed alone has no u.
        """
        there = self.second_cells != NO_RECORD
        cross = np.zeros((cells, cells))
        np.add.at(cross, (self.first_cells[there], self.second_cells[there]), (p * chi)[there])
        return np.diag(self.reach(p, cells)) - cross - cross.T


Free = tuple[tuple[int, int], ...]
"""The exchangeable attributes of a sector that are not fixed, each with its position and its number of values.

Positions count all exchangeable attributes that are not fixed."""

Values = tuple[tuple[int, ...], ...]
"""The values of the exchangeable attributes that are not fixed, for each record of a set."""


def agreement(values: Indices, free: Free) -> Floats:
    """Return χ of every two records, (m, m), in a sector with the attributes `free`, from their values, (m, f)."""
    out = np.ones((len(values), len(values)))
    for a, n in free:
        # Records always agree in an attribute of one value.
        out *= np.where(values[:, None, a] == values[:, a], 1.0, -1 / max(n - 1, 1))
    return out


@final
@dataclass(frozen=True, eq=False)
class RecordSets:
    """Sets of records of one unit, each record in a structured cell of its own.

    cells: The cells of each set, in increasing order. Where records are replaced, n_o + o stands for a record that is
        removed from cell o, with n_o structured cells.
    agreements: For each set, True if its records agree in all exchangeable attributes. False if each record has values
        of its own, drawn uniformly, of all attributes that are not fixed. Or a tuple of these values for each record:
        only the equality of values matters, not their names.
    """

    cells: tuple[tuple[int, ...], ...]
    agreements: tuple[bool | Values, ...]

    def __len__(self) -> int:
        return len(self.cells)

    def indicator(self, cells: int) -> Floats:
        """Return the number of records of each set that are added in each structured cell, and removed, (2, n_o, N)."""
        out = np.zeros((2, cells, len(self)))
        for i, chosen in enumerate(self.cells):
            out[*divmod(np.array(chosen), cells), i] = 1
        return out

    def parts(self, i: int) -> list[list[int]]:
        """Return the positions of a set's records in its tuple of cells, grouped by equal values."""
        way, m = self.agreements[i], len(self.cells[i])
        values = ([0] * m if way else range(m)) if isinstance(way, bool) else way
        groups: dict[Any, list[int]] = {}
        for k, value in enumerate(values):
            groups.setdefault(value, []).append(k)
        return list(groups.values())

    def agreement(self, i: int, free: Free) -> Floats:
        """Return E χ of every two records of a set, in a sector with the attributes `free`, (m, m)."""
        way, m = self.agreements[i], len(self.cells[i])
        if isinstance(way, bool):
            # χ of two independent uniform values has mean 0 in every sector with a free attribute.
            return np.ones((m, m)) if way or not free else np.eye(m)
        return agreement(np.array(way, dtype=np.intp).reshape(m, -1), free)

    def moment(self, p: Floats, cells: int, *, free: Free) -> Floats:
        """Return Σ p s sᵀ E χ over the sets, with χ of a set's records in two structured cells, (n_o, n_o).

        free: The attributes of the sector that are not fixed.
        """
        added, removed = self.indicator(cells)
        v = added - removed
        same, unlike = (
            [isinstance(x, bool) and (x or not free) is kind for x in self.agreements] for kind in (True, False)
        )
        # Records of independent values have no cross term.
        out = np.asarray((v * (p * same)) @ v.T + np.diag((added + removed) @ (p * unlike)))
        for i, way in enumerate(self.agreements):
            if not isinstance(way, bool):
                is_removed, here = divmod(np.array(self.cells[i]), cells)
                signs = 1 - 2 * is_removed
                # A record may be added in a cell from which another one is removed.
                np.add.at(out, np.ix_(here, here), p[i] * self.agreement(i, free) * np.outer(signs, signs))
        return out

    def reach(self, p: Floats, cells: int) -> Floats:
        """Return Σ p m over the sets with a record in each structured cell, (n_o,), m the number of a set's records.

        The moment is ≼ the diagonal matrix of the result.
        """
        v = self.indicator(cells).sum(axis=0)
        # (Σ x_i)² ≤ m Σ x_i² over the m records of a set.
        return np.asarray(v @ (p * v.sum(axis=0)))


@final
@dataclass(frozen=True, eq=False)
class AdmissibleSets:
    """The sets of records that one unit can have.

    compatible: True for two structured cells that can hold two of its records, (n_o, n_o). Where records are replaced,
        (2 n_o, 2 n_o): cells in which records are added come first, then those from which records are removed.
    max_records: The largest number of records of a unit.
    fixed: Positions of exchangeable attributes in which they agree.
    sizes: n_a of every exchangeable attribute.
    parts: 2 if records are replaced, else 1. Each part of the cells has at most `max_records` records.
    """

    compatible: NDArray[np.bool_]
    max_records: int
    fixed: tuple[int, ...] = ()
    sizes: tuple[int, ...] = ()
    parts: int = 1

    @property
    def part_of(self) -> Indices:
        """The part of each cell."""
        return np.arange(self.parts).repeat(len(self.compatible) // self.parts)

    def signed(self, x: Floats, *, meet: bool = True) -> Floats:
        """Return the cost of any two records in the cells of `compatible`, from those of added records, (n_o, n_o).

        meet: False if no removed record changes a number that an added one changes.
        """
        return x if self.parts == 1 else np.block([[x, -x * meet], [-x * meet, x]])

    @property
    def moving(self) -> tuple[int, ...]:
        """Positions of the exchangeable attributes that are not fixed."""
        return tuple(a for a in range(len(self.sizes)) if a not in self.fixed)

    def free(self, group: SectorGroup) -> list[Free]:
        """Return the attributes that are not fixed, for each sector of a group."""
        index = {a: i for i, a in enumerate(self.moving)}
        return [tuple((index[a], self.sizes[a]) for a in row if a in index) for row in group.attributes.tolist()]

    def check(self, sets: RecordSets) -> None:
        """Raise PlanError for sets of records that no unit has."""
        n, room = len(self.compatible), [self.sizes[a] for a in self.moving]
        for cells, way in zip(sets.cells, sets.agreements, strict=True):
            if not isinstance(way, bool) and not (
                len(way) == len(cells)
                and all(len(x) == len(room) and all(0 <= v < k for v, k in zip(x, room, strict=True)) for x in way)
            ):
                raise PlanError(
                    "evidence-values-impossible",
                    "The evidence uses values that the records of no unit can have.",
                    "",
                    "Verify an unaltered plan, or plan again.",
                    "No bound was proven.",
                )
            # Rising cells are different cells, and the last is the largest.
            rising = all(a < b for a, b in itertools.pairwise(cells))
            inside = rising and len(cells) > 0 and cells[0] >= 0 and cells[-1] < n
            inside = inside and np.bincount(self.part_of[list(cells)]).max() <= self.max_records
            if not inside or not all(self.compatible[i, j] for i, j in itertools.combinations(cells, 2)):
                raise PlanError(
                    "evidence-records-impossible",
                    "The evidence uses a set of records that no unit can have.",
                    "",
                    "Verify an unaltered plan, or plan again.",
                    "No bound was proven.",
                )


Kinds = tuple[tuple[int, bool, float], ...]
"""Kinds of sets of records of one unit. Each has a number of records, True if they agree in the other exchangeable
attributes, and a weight."""


@final
@dataclass(frozen=True)
class DistinctRecords:
    """Units whose records differ, any two of them, in some exchangeable attributes.

    A record stands for several in its joint cell, as many as this cell can have. In the largest set, one joint cell can
    have fewer. Other numbers of records prove no more. Let a joint cells have k records each, and another one r. Costs
    are linear in (a k + r)² and in a k² + r², and do not fall in the latter. It is convex in the former for 0 ≤ r ≤ k.

    attributes: Positions of these attributes.
    cells: n, their joint cells.
    max_records: The largest number of records of a unit, at most n.
    fixed: Positions of attributes in which its records agree.
    last: The share of a record that one joint cell of the largest set has, above 0 and at most 1.
    """

    attributes: tuple[int, ...]
    cells: int
    max_records: int
    fixed: tuple[int, ...] = ()
    last: float = 1.0

    def sums(self, m: int) -> tuple[float, float]:
        """Return the number of records of a set in m joint cells, and the sum of squares of those in each cell."""
        last = self.last if m == self.max_records else 1.0
        return m - 1 + last, m - 1 + last**2

    def factors(self, kinds: Kinds, group: SectorGroup) -> Floats:
        """Return the mean cost of sets of records in each sector of a group, as a multiple of one record's cost, (K,).

        Let m records lie in some of the n joint cells, with all choices equally likely. The squares of their numbers in
        each add up to f. Their Σ_ij E χ_S is m² in a sector without these attributes. It is (n f − m²)/(n − 1) in a
        sector with them, because χ_S adds up to 0 over all n. These values hold if the records agree in all other
        attributes. Otherwise each joint cell has independent values of the others that are not fixed. The sum is then f
        in a sector with any of them.
        """
        is_distinct = np.isin(group.attributes, self.attributes)
        free = ~(is_distinct | np.isin(group.attributes, self.fixed))
        inside, others, mean = is_distinct.any(axis=1), free.any(axis=1), np.zeros(len(group))
        total_weight = sum(weight for _, _, weight in kinds)
        for m, agree, weight in kinds:
            number, squares = self.sums(m)
            distinct_cost = np.where(inside, (self.cells * squares - number**2) / max(self.cells - 1, 1), number**2)
            mean += weight / total_weight * (distinct_cost if agree else np.where(others, squares, distinct_cost))
        return mean

    def check(self, kinds: Kinds) -> None:
        """Raise PlanError for sets of records that no unit has."""
        weights = [w for _, _, w in kinds]
        if not all(1 <= m <= self.max_records for m, _, _ in kinds) or not all(0 <= w < math.inf for w in weights):
            raise PlanError(
                "evidence-too-many-records",
                "The evidence uses more records than a unit can have, or a weight that is not a number of at least 0.",
                "",
                "Verify an unaltered plan, or plan again.",
                "No bound was proven.",
            )
        if not 0 < sum(weights) < math.inf:
            raise PlanError(
                "evidence-without-weight",
                "The weights of all sets of records in the evidence add up to 0, or to no finite number.",
                "",
                "Verify an unaltered plan, or plan again.",
                "No bound was proven.",
            )


SINGLE_RECORDS: Kinds = ((1, True, 1.0),)
"""Single records."""


@final
@dataclass(frozen=True, eq=False)
class Evidence:
    """The dual weights that prove a bound.

    cells: p, one for each structured cell, or for each pair or set.
    numbers: q, one for each number; empty for total error.
    pairs: The pairs that `cells` weighs, for replace-one neighbours.
    distinct_weights: The weight of each kind of sets of records in one structured cell, if units have several that
        differ.
    sets: The sets that `cells` weighs, if units have several records in different structured cells.
    kinds: The weight of each kind of neighbours, for tables by levels under replace-one neighbours
        (`meeting_pairs.bound`), and for tables by axis (`pair_laws`).
    meetings: The weights of the places in which two such neighbours meet (`meeting_pairs.bound`).
    """

    cells: Floats
    numbers: Floats
    pairs: RecordPairs | None = None
    distinct_weights: Kinds = SINGLE_RECORDS
    sets: RecordSets | None = None
    kinds: Floats | None = None
    meetings: Floats | None = None


@final
@dataclass(frozen=True, eq=False)
class ObjectiveTerms:
    """The quantity that is minimised.

    weights: ω of every number, for total error and hybrids; None gives every number its own target.
    trade: λ of a hybrid; None for others.
    relative: r of every structured cell; None is 1.
    factor: g², for units of g records in one cell.
    allows_add_or_remove: True if a single record may also be added or removed, for replace-one neighbours.
    held: The cells with public totals in which a record and its replacement agree; None if they can differ in all.
    distinct: The attributes in which records of a unit differ. None: no difference is known, or exchangeable attributes
        alone do not describe it.
    sets: The sets that these records can be, if they differ by structured attributes alone. Each record then stands for
        several in its cell, and `factor` is the square of their number.
    """

    weights: Floats | None = None
    trade: float | None = None
    relative: Floats | None = None
    factor: int = 1
    allows_add_or_remove: bool = False
    distinct: DistinctRecords | None = None
    sets: AdmissibleSets | None = None
    held: PublicCells | None = None

    @property
    def agreed(self) -> int:
        """The exchangeable attributes in which a record and its replacement agree, as a number with these bits."""
        return sum(1 << a for a in (() if self.held is None else self.held.exchangeable))


def lower_bound(decomposition: Decomposition, evidence: Evidence, terms: ObjectiveTerms) -> float:
    """Return a lower bound, proven by the evidence, on the objective of every mechanism of its kind.

    The module head lists the objectives. ν is rounded down: the function subtracts an allowance for rounding (SLACK)
    from its norms.

    Args:
        decomposition: The problem.
        evidence: Weights of at least 0. The function divides p by its sum, and q by its sum unless it is that of a
            hybrid. The q of a hybrid may be all zero. q is empty for total error.
        terms: The quantity that is minimised.

    Raises:
        PlanError: Weights are negative, not finite or of the wrong shape. Or all of p are 0, or all of a q that is
            divided by its sum.
        PlanError: The evidence uses a cell, a pair or a set of records that does not exist, or the weights of its sets
            prove nothing. Or it uses a single record or sets of records where neighbours do not differ in them.
        PlanError: Targets or budgets are too small for double precision, so that the bound is not finite.
    """
    d = decomposition
    check_evidence(d, evidence, terms)
    with np.errstate(over="ignore"):
        # Overflow is reported below, as a bound that is not finite.
        p, w = _weights(d, evidence, terms)
    if not (np.isfinite(p).all() and np.isfinite(w).all()):
        raise _bound_not_finite()
    if evidence.sets is not None and terms.sets is not None:
        nu = _nu_of_sets(d, p, w, evidence.sets, terms.sets)
    else:
        nu = _nu(
            d, p, w, evidence.pairs, None if terms.distinct is None else (terms.distinct, evidence.distinct_weights)
        )
    proven = nu * nu if terms.trade is None else 2 * nu - float(evidence.numbers.sum())
    if not math.isfinite(proven):
        raise _bound_not_finite()
    return proven


def sector_norms(d: Decomposition, evidence: Evidence, terms: ObjectiveTerms) -> list[Floats]:
    """Return the terms of ν for single records, before their sum: an array for each group of sectors.

    Args:
        d: The problem.
        evidence: Weights of the cells and the numbers.
        terms: The quantity that is minimised.
    """
    p, w = _weights(d, evidence, terms)
    return [group.multiplicity * np.maximum(_group_norms(_stack(d, group, w), p), 0.0) for group in d.groups]


def _weights(d: Decomposition, evidence: Evidence, terms: ObjectiveTerms) -> tuple[Floats, Floats]:
    """Return p g²/r, with p scaled to the sum 1, and w."""
    p = evidence.cells / evidence.cells.sum() * terms.factor
    if terms.relative is not None:
        # A cell without a budget has no record: its weight counts nothing, which weakens the bound and keeps it true.
        p = np.divide(p, terms.relative, out=np.zeros_like(p), where=terms.relative > 0)
    if terms.weights is None:
        return p, evidence.numbers / evidence.numbers.sum() / d.variances
    if terms.trade is None:
        return p, terms.weights / float(terms.weights @ d.variances)
    return p, evidence.numbers / d.variances + terms.trade * terms.weights


def _bound_not_finite() -> PlanError:
    """Return the error for a proven bound that doubles cannot hold."""
    return PlanError(
        "bound-not-finite",
        "Targets or budgets are too small for double precision.",
        "",
        "Choose larger targets or budgets.",
        "No bound was proven.",
    )


def check_evidence(d: Decomposition, evidence: Evidence, terms: ObjectiveTerms) -> None:
    """Raise PlanError for evidence that proves nothing, with the causes that :func:`lower_bound` lists.

    The function does not check that the bound is finite.
    """
    kinds = evidence.pairs if evidence.sets is None else evidence.sets
    cells = d.cells if kinds is None else len(kinds)
    _check("p", evidence.cells, cells, positive=True)
    if terms.distinct is not None:
        terms.distinct.check(evidence.distinct_weights)
    elif evidence.distinct_weights != SINGLE_RECORDS:
        raise PlanError(
            "evidence-separation-unexpected",
            "The evidence uses sets of records in different cells, and this plan has no such units.",
            "",
            "Verify an unaltered plan, or plan again.",
            "No bound was proven.",
        )
    if evidence.sets is not None:
        if terms.sets is None or evidence.pairs is not None:
            raise PlanError(
                "evidence-sets-unexpected",
                "The evidence uses sets of records, and this plan has no such units.",
                "",
                "Verify an unaltered plan, or plan again.",
                "No bound was proven.",
            )
        terms.sets.check(evidence.sets)
    total_only = terms.weights is not None and terms.trade is None
    _check("q", evidence.numbers, 0 if total_only else len(d.variances), positive=terms.weights is None)
    if evidence.pairs is not None:
        first_cells, second_cells = evidence.pairs.first_cells, evidence.pairs.second_cells
        if (
            # A second cell may be NO_RECORD.
            min(first_cells.min(), second_cells.min() - NO_RECORD) < 0
            or max(first_cells.max(), second_cells.max()) >= d.cells
        ):
            raise PlanError(
                "evidence-cell-missing",
                "A pair of records in the evidence names a cell that does not exist.",
                "",
                "Verify an unaltered plan, or plan again.",
                "No bound was proven.",
            )
        places, there = np.zeros(d.cells) if terms.held is None else np.array(terms.held.places), second_cells >= 0
        is_outside = any(terms.agreed & ~agree for agree in evidence.pairs.agree)
        if is_outside or (places[first_cells] != places[second_cells])[there].any():
            raise PlanError(
                "evidence-outside-within",
                "The evidence uses two records that differ in an attribute of within.",
                "",
                "Verify an unaltered plan, or plan again.",
                "No bound was proven.",
            )
        if not terms.allows_add_or_remove and (second_cells == NO_RECORD).any():
            raise PlanError(
                "evidence-single-record",
                "The evidence uses a single record, and neighbours differ here in a pair of records.",
                "",
                "Verify an unaltered plan, or plan again.",
                "No bound was proven.",
            )


def _check(name: str, w: Floats, n: int, *, positive: bool) -> None:
    if w.shape != (n,) or not np.isfinite(w).all() or (w < 0).any() or (positive and w.sum() <= 0):
        raise PlanError(
            "dual-weights-unusable",
            f"The dual weights {name} are not {n} finite numbers of at least 0, or all of them are 0.",
            "",
            "Verify an unaltered plan, or plan again.",
            "No bound was proven.",
        )


def _nu(
    d: Decomposition, p: Floats, w: Floats, pairs: RecordPairs | None, distinct: tuple[DistinctRecords, Kinds] | None
) -> float:
    """Return ν(p, w), rounded down."""
    nu, max_factor = 0.0, 1.0
    for group in d.groups:
        stacked = _stack(d, group, w)
        if pairs is None:
            norms = _group_norms(stacked, p, d.public_places(group))
        else:
            norms = np.empty(len(group))
            norm_by_key: dict[tuple[bytes, bytes], float] = {}
            for i, (attributes, sizes) in enumerate(zip(group.attributes, group.sizes, strict=True)):
                chi = pairs.chi(tuple(attributes.tolist()), tuple(sizes.tolist()))
                weights = [(queries, u[i]) for queries, u in stacked]
                # Sectors with equal χ and equal weights of rows have equal norms.
                key = chi.tobytes(), b"".join(u.tobytes() for _, u in weights)
                if key not in norm_by_key:
                    moment = pairs.moment(p, chi, d.cells)
                    norm_by_key[key] = _sector_norm(weights, pairs.reach(p, d.cells), moment, len(pairs))
                norms[i] = norm_by_key[key]
        if distinct is not None:
            factors = distinct[0].factors(distinct[1], group)
            # A mean cost over sets of records multiplies diag(p), so its root multiplies the norm.
            norms, max_factor = norms * np.sqrt(factors) * (1 - SLACK), max(max_factor, float(factors.max()))
        # A norm below its allowance for rounding counts as 0.
        nu += float(group.multiplicity @ np.maximum(norms, 0.0))
    trace = p.sum() * max_factor if pairs is None else 2 * pairs.reach(p, d.cells).sum()
    # Over a rounded basis, the largest contribution of E leaves a bound for the requested queries.
    return max(nu - _perturbation_norm(d, w, float(trace)), 0.0)


def _nu_of_sets(d: Decomposition, p: Floats, w: Floats, sets: RecordSets, admissible: AdmissibleSets) -> float:
    """Return ν(p, w) for weights of sets of records, rounded down."""
    nu, reach = 0.0, sets.reach(p, d.cells)
    moments: dict[Free, Floats] = {}
    for group in d.groups:
        stacked = _stack(d, group, w)
        norm_by_key: dict[tuple[Free, bytes], float] = {}
        for i, free in enumerate(admissible.free(group)):
            weights = [(queries, u[i]) for queries, u in stacked]
            key = free, b"".join(u.tobytes() for _, u in weights)
            if key not in norm_by_key:
                if free not in moments:
                    moments[free] = sets.moment(p, d.cells, free=free)
                norm_by_key[key] = _sector_norm(weights, reach, moments[free], len(sets))
            nu += float(group.multiplicity[i]) * max(norm_by_key[key], 0.0)
    return max(nu - _perturbation_norm(d, w, float(reach.sum())), 0.0)


def _perturbation_norm(d: Decomposition, w: Floats, trace: float) -> float:
    """Return an upper bound of ‖ diag(w)^½ E D^½ ‖_* for the shifts E of all tables' queries, in their only sector.

    The trace of D is at most `trace`.
    """
    return sum(
        math.sqrt(min(x.queries.shape) * float((w[x.numbers] @ x.row_shift**2).sum()) * trace) * (1 + SLACK)
        for x in d.tables
        if x.row_shift is not None
    )


def _stack(d: Decomposition, group: SectorGroup, w: Floats) -> list[tuple[Array | Operator, Floats]]:
    """Return the different queries that reach a group's K sectors, (m, n_o), and the weights of their rows, (K, m)."""
    stacked: dict[int, tuple[Array | Operator, Floats]] = {}
    for m in group.members:
        tables = d.tables[m.tables]
        row_weights = m.incidence @ (w[tables.numbers] / tables.cells[:, None] ** 2)
        # Rows that several tables share count once: √w₁ r over √w₂ r has the singular values of √(w₁ + w₂) r.
        key = id(tables.queries)
        stacked[key] = tables.queries, (stacked[key][1] + row_weights if key in stacked else row_weights)
    return list(stacked.values())


def _group_norms(
    stacked: Sequence[tuple[Array | Operator, Floats]], p: Floats, places: Indices | None = None
) -> Floats:
    """Return ‖ diag(w)^½ R_S D_S^½ ‖_* of every sector of a group, (K,), less an allowance for rounding.

    D_S is diag(p), or the covariance within the cells `places` of public attributes.
    """
    count = len(stacked[0][1])
    if places is not None:
        return np.array([_norm_within([(q, u[i]) for q, u in stacked], p, places) for i in range(count)])
    matrices = [q for q, _ in stacked if isinstance(q, np.ndarray)]
    if count == 1 or len(matrices) < len(stacked):
        return np.array([_sector_norm([(q, u[i]) for q, u in stacked], p, None, 0) for i in range(count)])
    rows, roots = np.concatenate(matrices) * np.sqrt(p), np.sqrt(np.concatenate([u for _, u in stacked], axis=1))
    # One row has one singular value, its length.
    if len(rows) == 1:
        return np.asarray((1 - SLACK) * roots[:, 0] * math.sqrt((rows**2).sum()))
    if rows.shape[1] > len(rows):  # an orthogonal change of the cells' coordinates leaves singular values as they are
        rows = sl.qr(rows.T, mode="r")[0][: len(rows)].T
    step = max(1, CHUNK // rows.size)
    norms = [
        np.linalg.svd(roots[i : i + step, :, None] * rows, compute_uv=False).sum(axis=1) for i in range(0, count, step)
    ]
    return np.asarray((1 - SLACK - 2 * EPS * min(rows.shape)) * np.concatenate(norms))


def _norm_within(parts: Sequence[tuple[Array | Operator, Floats]], p: Floats, places: Indices) -> float:
    """Return ‖ diag(w)^½ R_S D_S^½ ‖_*, less an allowance for rounding, with D_S the covariance within public cells.

    D_S^½ is diag(p)^½ (I − U Uᵀ). The columns of U are the roots of p in each cell, of length 1.
    """
    rows = np.concatenate(
        [np.sqrt(x)[:, None] * (q if isinstance(q, np.ndarray) else rules.dense(q)) for q, x in parts]
    )
    sums = np.bincount(places, p)[places]
    unit = np.sqrt(np.divide(p, sums, out=np.zeros_like(p), where=sums > 0))
    scaled = rows * np.sqrt(p)
    means = np.zeros((int(places.max()) + 1, len(rows)))
    np.add.at(means, places, (scaled * unit).T)
    differences = scaled - means.T[:, places] * unit
    # Rounding of the difference is relative to the larger matrix.
    small = 8 * EPS * min(rows.shape) * len(p) ** 0.5 * float(np.sqrt((scaled**2).sum()))
    return float((1 - SLACK - 2 * EPS * min(rows.shape)) * _nuclear_norm(differences) - small)


def _sector_norm(
    parts: Sequence[tuple[Array | Operator, Floats]], reach: Floats, moment: Floats | None, summed: int
) -> float:
    """Return ‖ diag(w)^½ R_S D_S^½ ‖_*, less an allowance for rounding.

    D_S is `moment`, or diag(reach) without a moment. In both cases the columns of R_S are first multiplied by the roots
    of `reach`, and rows and columns of D_S divided by them.

    Without a moment, and if all queries are matrices, the norm is the sum of singular values. Otherwise it is computed
    from the eigenvalues of N^½ D_S N^½, N = R_Sᵀ diag(w) R_S.

    Args:
        parts: The queries, (m, n_o), with their weights, (m,).
        reach: The bound on D_S, (n_o,): D_S ≼ 2 diag(reach).
        moment: D_S, (n_o, n_o); None for diag(reach).
        summed: The number of terms added up in `moment`, for its rounding.
    """
    # Without this scale, the rounding of a cell of large weight would exceed all that a light cell adds.
    scale, n = np.sqrt(reach), len(reach)
    if all(isinstance(q, np.ndarray) for q, _ in parts):
        stacked = np.concatenate([np.sqrt(x)[:, None] * q for q, x in parts]) * scale
        if moment is None:
            return float((1 - SLACK - 2 * EPS * min(stacked.shape)) * _nuclear_norm(stacked))
        root = sl.qr(stacked, mode="r")[0][:n]
    else:
        gram = np.zeros((n, n))
        for q, x in parts:
            gram += (q.T * x) @ q if isinstance(q, np.ndarray) else rules.weighted_gram(q, x)
        gram *= scale[:, None] * scale
        if moment is None:
            return _sum_of_roots(sl.eigvalsh(gram), 8 * n)
        eigenvalues, axes = sl.eigh(gram)
        root = np.sqrt(np.maximum(eigenvalues, 0))[:, None] * axes.T
    inverse = np.divide(1, scale, out=np.zeros_like(scale), where=scale > 0)
    scaled_moment = moment * inverse[:, None] * inverse
    size = float((root**2).sum())  # at least the norm of N, which cancellation may leave none of
    return _sum_of_roots(sl.eigvalsh(root @ scaled_moment @ root.T), 16 * n + summed, size)


def _sum_of_roots(values: NDArray[Any], steps: int, size: float = 0.0) -> float:
    """Return Σ √λ over the computed eigenvalues of a positive semidefinite matrix, rounded down.

    The error of each eigenvalue is at most `steps` · EPS times the norm of the matrix. Sums of terms ≥ 0 have a
    relative error of one EPS a term. A symmetric eigenproblem has an error of about n EPS times the norm.

    values: The computed eigenvalues.
    steps: The number of rounding steps in one eigenvalue.
    size: A bound on the norm, if the largest eigenvalue may be below it.
    """
    off = steps * EPS * max(size, float(values.max()))
    # A bound must be too low rather than too high, so each eigenvalue is taken at its lower end.
    return float(np.sqrt(np.maximum(values - off, 0)).sum())


def _nuclear_norm(a: Floats) -> float:
    if min(a.shape) == 1:
        return float(np.sqrt((a**2).sum()))
    # A triangular factor has the singular values of its matrix, and is the smaller of the two.
    tall = a if len(a) >= a.shape[1] else a.T
    return float(sl.svdvals(sl.qr(tall, mode="r")[0][: tall.shape[1]] if len(tall) > tall.shape[1] else tall).sum())


# --- the Ky Fan design -------------------------------------------------------------------------------------------

COLUMN_SPACE_TOLERANCE = 1e-9
"""The relative length of the part of a column outside the span of the noise above which the column counts as not
hidden."""


def ky_fan_certificate(queries: Floats, weights: Floats, factor: Floats, k: int, shift: float = 0.0) -> Certificate:
    """Return the ‖Σ‖_(k) that a covariance of noise reaches at sensitivity 1, and the lower bound that weights prove.

    Args:
        queries: A, (m, N).
        weights: q, (N,).
        factor: F, (m, s), Σ = F Fᵀ.
        k: The number of largest eigenvalues that the norm adds up, at least 1.
        shift: The shift of the queries, see :func:`ky_fan_lower`.

    Raises:
        PlanError: :func:`ky_fan_lower` or :func:`ky_fan_upper` refuses an argument, or the bound is 0.

    **Guarantees**
        * The guarantees of both functions hold.
        * The function trusts no weight and no factor: any of them give a true bound and a true value.
    """
    return Certificate(value=ky_fan_upper(queries, factor, k), bound=ky_fan_lower(queries, weights, k, shift))


def ky_fan_lower(queries: Floats, weights: Floats, k: int, shift: float = 0.0) -> float:
    """Return h_k(A diag(q) Aᵀ)², rounded down: no ‖Σ‖_(k) of sensitivity 1 is below it.

    Let s be the singular values of Y = A diag(q)^½, and t the smallest number with (Σ_{i>t} s_i²)/(k − t) ≥ s_{t+1}².

        h_k = Σ_{i≤t} s_i + (k − t)^½ (Σ_{i>t} s_i²)^½ = max { ⟨Z, Y⟩ : ‖Z‖ ≤ 1, ‖Z‖_F² ≤ k }.

    For Σ of sensitivity 1 and that Z, ⟨Z, Y⟩ = ⟨Σ^½ Z, Σ^−½ Y⟩ ≤ (tr Σ Z Zᵀ)^½ (Σ_e q_e a_eᵀ Σ⁻¹ a_e)^½. The second
    factor is at most 1. The first is at most ‖Σ‖_(k)^½, since 0 ≼ Z Zᵀ ≼ I and its trace is at most k.

    Args:
        queries: A, (m, N), finite.
        weights: q ≥ 0, (N,), normalised by the function.
        k: The number of largest eigenvalues that the norm adds up, at least 1.
        shift: At least (Σ_j max_e E_je²)^½ if the requested queries are A − E.

    Raises:
        PlanError: The queries, the weights or k are unusable.

    **Guarantees**
        * The result is a bound for any weights, for the requested queries: a solver can make it weak, never wrong.
        * h_k is a norm of Y between ‖Y‖_F and √k ‖Y‖_F. Errors of n ε ‖Y‖_F, n the smaller side, therefore change h_k
          by a share of at most √k n ε. The function subtracts four times this share, and `SLACK`.

    Source: Theorem 4.2 of Nikolov, ICALP 2015, where the left side of the equality is printed with a square too many.
    The proof in three lines is from this project.
    """
    _check_ky_fan(queries, k)
    _check("q", weights, queries.shape[1], positive=True)
    y = queries * np.sqrt(weights / weights.sum())
    tall = y if len(y) >= y.shape[1] else y.T
    s = sl.svdvals(sl.qr(tall, mode="r")[0][: tall.shape[1]])
    h, root = _dual_ky_fan(s, k), math.sqrt(min(k, len(s)))
    return max(h * (1 - SLACK - 4 * root * len(s) * EPS) - root * shift * (1 + SLACK), 0.0) ** 2


def _dual_ky_fan(s: Floats, k: int) -> float:
    """Return h_k from singular values, falling."""
    k = min(k, len(s))
    squares = np.cumsum(s[::-1] ** 2)[::-1]
    t = 0
    # At equality t and t + 1 give the same h_k, so the allowance for a tie changes h_k by rounding alone.
    while t < k - 1 and squares[t] < (k - t) * s[t] ** 2 * (1 - 4 * EPS):
        t += 1
    return float(s[:t].sum() + math.sqrt((k - t) * squares[t]))


def ky_fan_upper(queries: Floats, factor: Floats, k: int) -> float:
    """Return ‖Σ‖_(k) · max_e a_eᵀ Σ⁻¹ a_e for Σ = F Fᵀ; rounded up.

    The product is the cost of Σ scaled to sensitivity 1. Everything is computed from singular vectors of F.

    Args:
        queries: A, (m, N), finite.
        factor: F, (m, s), finite.
        k: The number of largest eigenvalues that the norm adds up, at least 1.

    Raises:
        PlanError: The queries, the factor or k are unusable, or the factor is singular. Or columns of A lie outside the
            span of F, where the noise would not hide them.

    **Guarantees**
        * The result is at least the least ‖Σ‖_(k) at sensitivity 1, for any factor.
    """
    _check_ky_fan(queries, k)
    if factor.ndim != 2 or len(factor) != len(queries) or not factor.size or not np.isfinite(factor).all():
        raise PlanError(
            "noise-factor-misfit",
            f"The factor of the noise does not have {len(queries)} rows of finite numbers, one for each answer.",
            "",
            "Give a finite factor with one row for each answer.",
            "Nothing was proven.",
        )
    axes, s, _ = sl.svd(factor, full_matrices=False)
    n = max(factor.shape)
    if s[-1] <= n * EPS * s[0]:
        raise PlanError(
            "noise-factor-singular",
            "The factor of the noise is singular.",
            "",
            "Give a factor of full rank.",
            "Nothing was proven.",
        )
    inside = axes.T @ queries
    lengths = (queries**2).sum(axis=0)
    if (((queries - axes @ inside) ** 2).sum(axis=0) > COLUMN_SPACE_TOLERANCE**2 * lengths).any():
        raise PlanError(
            "cell-without-noise",
            "Some cell changes the answers in a direction that receives no noise.",
            "A private mechanism needs noise in every direction that a record can change.",
            "Give a factor whose columns span all queries.",
            "Nothing was proven.",
        )
    # a_eᵀ Σ⁻¹ a_e from the singular vectors of F. Σ itself would have the square of its condition number.
    sensitivity = float(((inside / s[:, None]) ** 2).sum(axis=0).max())
    rounding = SLACK + 8 * len(s) * EPS * float(s[0] / s[-1])
    return float((s[:k] ** 2).sum()) * sensitivity * (1 + rounding)


def _check_ky_fan(queries: Floats, k: int) -> None:
    if not is_integer(k) or k < 1 or queries.ndim != 2 or not queries.size or not np.isfinite(queries).all():
        raise PlanError(
            "certificate-arguments-unusable",
            f"The queries are not a matrix of finite numbers, or k = {k!r} is not a whole number of at least 1.",
            "",
            "Give a matrix of finite numbers, and k ≥ 1.",
            "Nothing was proven.",
        )
