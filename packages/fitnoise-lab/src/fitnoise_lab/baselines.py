"""The baselines of the fit-for-use paper: the cost of other mechanisms, and of the user's own, at equal accuracy.

Each one is a factorisation W = R A. It measures A x with independent unit Gaussian noise, and publishes R times the
answers. Its profile is the squared norms of the columns of A, and its variances those of the rows of R. All are scaled
so that the worst number meets its target exactly. `cost` is then the Δ² at which every target is met. The paper fixes
the cost at the optimum and prints the worst variance over its target. This equals `cost` over the optimum (Theorem 5).

| function | strategy A | of the paper |
|---|---|---|
| :func:`input_perturbation` | the cells | IP |
| :func:`gaussian` | the queries themselves | named, without numbers |
| :func:`hierarchical` | a tree over the cells | HM |
| :func:`total_error` | that of the least total error | CA; weighted: wCA-I, wCA-II |
| :func:`least_squares` | any | |
| :func:`of_covariance` | any, by its covariance | |

:func:`optimality_gap` compares the cost of any of them with the certified optimum. :func:`refined_order` compares the
costs of records in two mechanisms or plans.

**Source.** Xiao, Ding, Wang, Zhang, Kifer: Optimizing fitness-for-use of differentially private linear queries, PVLDB
14(10), 2021, section 7.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol, final

import numpy as np
import numpy.typing as npt

from fitnoise.errors import WorkloadError
from fitnoise.kernel.arrays import Floats
from fitnoise.kernel.losses import rounded_up
from fitnoise.mechanisms.laplace.hierarchies import hierarchy
from fitnoise.planning.comparison import plan
from fitnoise.request.publication import ErrorWeights, Goal, Objective
from fitnoise.request.workloads import matrix_workload
from fitnoise_lab.strategies import branching_factor

RECOVERY_TOLERANCE = 1e-7
"""The share of a query's largest entry by which a strategy's answer can differ from the query."""


@final
@dataclass(frozen=True, eq=False)
class Mechanism:
    """A Gaussian linear mechanism: recovery R (m, s) times noisy answers to strategy A (s, d), with R A = W."""

    recovery: Floats
    strategy: Floats

    @property
    def variances(self) -> Floats:
        """The variances of the published numbers, (m,)."""
        return np.asarray((self.recovery**2).sum(axis=1))

    @property
    def profile(self) -> Floats:
        """The squared cost of one record in each cell, (d,)."""
        return np.asarray((self.strategy**2).sum(axis=0))

    @property
    def cost(self) -> float:
        """Δ², the largest entry of the profile."""
        return float(self.profile.max())


def least_squares(w: npt.ArrayLike, c: npt.ArrayLike, strategy: npt.ArrayLike) -> Mechanism:
    """Return the mechanism of a strategy A with independent noise and least squares: R = W A⁺, which is the best R.

    Args:
        w: The queries W, (m, d).
        c: The target variances, (m,) or one for all.
        strategy: A, (s, d); its scale does not matter.

    Raises:
        WorkloadError: The arrays do not fit together, a target is not positive, or a query is no combination of rows of
            A.
    """
    queries, targets = _as_floats(w, c)
    rows = np.asarray(strategy, dtype=np.float64)
    if rows.ndim != 2 or rows.shape[1] != queries.shape[1] or not np.isfinite(rows).all():
        raise WorkloadError(
            "strategy-columns",
            f"The strategy has the shape {rows.shape}, or a number that is not finite.",
            "",
            f"Give finite numbers in a matrix with one column for each of the {queries.shape[1]} cells.",
            "Nothing was computed.",
        )
    return _scaled(_recovery(queries, rows), rows, targets)


def of_covariance(w: npt.ArrayLike, c: npt.ArrayLike, basis: npt.ArrayLike, covariance: npt.ArrayLike) -> Mechanism:
    """Return the mechanism that answers B x with noise of covariance Σ: A = F⁻¹B and R = (W B⁺) F for Σ = F Fᵀ.

    Args:
        w: The queries W, (m, N).
        c: The target variances, (m,) or one for all. Σ is scaled so that the worst number meets its target exactly.
        basis: B (r, N), of full row rank.
        covariance: Σ (r, r), positive definite; its scale does not matter.

    Raises:
        WorkloadError: The queries and the targets do not fit together, a target is not positive, or a query is no
            combination of rows of B.
        ValueError: B does not fit to W or Σ.
        numpy.linalg.LinAlgError: Σ is not square or not positive definite.
    """
    queries, targets = _as_floats(w, c)
    rows, factor = np.asarray(basis, dtype=np.float64), np.linalg.cholesky(np.asarray(covariance, dtype=np.float64))
    recovery, strategy = _recovery(queries, rows) @ factor, np.linalg.solve(factor, rows)
    return _scaled(np.asarray(recovery, dtype=np.float64), np.asarray(strategy, dtype=np.float64), targets)


def input_perturbation(w: npt.ArrayLike, c: npt.ArrayLike) -> Mechanism:
    """Return IP: independent noise of one variance on every cell, A = I. Δ² = max_j ‖w_j‖²/c_j.

    Args:
        w: The queries W, (m, N).
        c: The target variances, (m,) or one for all.

    Raises:
        WorkloadError: The queries and the targets do not fit together, or a target is not positive.
    """
    queries, targets = _as_floats(w, c)
    return _scaled(queries, np.eye(queries.shape[1]), targets)


def gaussian(w: npt.ArrayLike, c: npt.ArrayLike) -> Mechanism:
    """Return GM: independent noise of variance c_j on the j-th number, A = diag(c)^-½ W. Δ² = max_i Σ_j W_ji²/c_j.

    Nothing is averaged afterwards: every target is met exactly. The paper calls this always significantly worse than CA
    and leaves it out. It is within 1/d of the optimum for the identity and the sum (2 against 2d/(1 + d)). For PL94 it
    costs 4, and CA costs 13.76.

    Args:
        w: The queries W, (m, N).
        c: The target variances, (m,) or one for all.

    Raises:
        WorkloadError: The queries and the targets do not fit together, or a target is not positive.
    """
    queries, targets = _as_floats(w, c)
    return Mechanism(np.diag(np.sqrt(targets)), queries / np.sqrt(targets)[:, None])


def hierarchical(w: npt.ArrayLike, c: npt.ArrayLike, branching: int | None = None) -> Mechanism:
    """Return HM: a tree over the cells in their order, with root, equal noise on all nodes, and least squares.

    Args:
        w: The queries W, (m, N).
        c: The target variances, (m,) or one for all.
        branching: The number of children of a node; None takes the `branching_factor` of the number of cells. The
            paper's numbers for ranges and marginals agree with ⌈√n⌉, two levels below the root.

    Raises:
        WorkloadError: The queries and the targets do not fit together, or a target is not positive. Or `branching` is
            not an integer of at least 2.
    """
    n = _as_floats(w, c)[0].shape[1]
    return least_squares(w, c, hierarchy(n, branching_factor(n) if branching is None else branching))


WEIGHTS = {0.0: ErrorWeights.UNIFORM, 0.5: ErrorWeights.INVERSE_STD_ERROR, 1.0: ErrorWeights.INVERSE_VARIANCE}


def total_error(w: npt.ArrayLike, c: npt.ArrayLike, power: float = 0.0, gap: float = 1e-7) -> Mechanism:
    """Return CA or a weighted form: the covariance of least Σ_j c_j^-power var_j, scaled to the worst target.

    In the paper's words, wCA-I has the weights 1/c (power 1) and wCA-II 1/√c (power ½). Its tables 6 and 8 agree with
    queries multiplied by these weights. Their squared errors then have 1/c² (power 2) and 1/c (power 1).

    Args:
        w: The queries W, (m, N).
        c: The target variances, (m,) or one for all.
        power: The power of the target variances in the weights.
        gap: The certified gap of the total. The optimal covariance is unique, but single variances are only as near to
            theirs as the square root of the gap.

    Raises:
        WorkloadError: The queries and the targets do not fit together, or a target is not positive. Or the queries
            cannot be planned.
        GapNotReached: The certified gap is above `gap`.
    """
    queries, targets = _as_floats(w, c)
    if power in WEIGHTS:
        rows, weights = queries, WEIGHTS[power]
    else:
        # Other weights enter as factors of the queries: the variance of √w W x is w times that of W x.
        rows, weights = queries * targets[:, None] ** (-power / 2), ErrorWeights.UNIFORM
    optimum = plan(matrix_workload(rows, variances=targets), objective=Objective(Goal.TOTAL_ERROR, weights), gap=gap)
    (sector,) = optimum.table_part.strategy.sectors
    return least_squares(queries, targets, np.asarray(sector.rows, dtype=np.float64) / sector.scale)


@final
@dataclass(frozen=True)
class OptimalityGap:
    """The cost of a mechanism relative to the certified optimum.

    Attributes:
        cost: The Δ² of the mechanism at which every target is met.
        optimum: The Δ² of a certified plan.
        bound: The lower bound of Δ² for every unbiased Gaussian linear mechanism.
        total: The mechanism's sum of variances over that of the plan, both at one privacy cost.
    """

    cost: float
    optimum: float
    bound: float
    total: float

    @property
    def ratio(self) -> float:
        """Cost over optimum: the ratio of the worst variance to its target at the plan's privacy cost."""
        return self.cost / self.optimum


def optimality_gap(w: npt.ArrayLike, c: npt.ArrayLike, mechanism: Mechanism) -> OptimalityGap:
    """Return the cost of a mechanism for a workload relative to the certified optimum. It uses no data.

    Raises:
        WorkloadError: The mechanism does not answer the workload, or the workload cannot be planned.
    """
    queries, targets = _as_floats(w, c)
    there = mechanism.recovery @ mechanism.strategy
    if there.shape != queries.shape or np.abs(there - queries).max() > RECOVERY_TOLERANCE * np.abs(queries).max():
        raise WorkloadError(
            "mechanism-of-other-queries",
            "The mechanism answers other queries than the workload, as R A is not W.",
            "",
            "Give a mechanism for these queries.",
            "Nothing was computed.",
        )
    # Both are compared with targets that are just met, so that costs are comparable.
    candidate = _scaled(mechanism.recovery, mechanism.strategy, targets)
    best = plan(matrix_workload(queries, variances=targets)).table_part
    optimum = rounded_up(best.exact_cost)
    # Variance times cost does not depend on the scale of the noise.
    total = candidate.cost * float(candidate.variances.sum()) / (optimum * float(best.variances.sum()))
    return OptimalityGap(candidate.cost, optimum, best.bound, total)


class PricedMechanism(Protocol):
    """A mechanism, or the tables of a plan, with the cost of its records."""

    @property
    def profile(self) -> Floats:
        """The squared cost of one record in each cell."""


def refined_order(left_mechanism: PricedMechanism, right_mechanism: PricedMechanism, tolerance: float = 1e-6) -> int:
    """Return the order of two by the costs of their records: −1 if the first costs less, 1 the second, 0 neither.

    The costs of records are compared from the costliest cell to the one of lowest cost. The first difference decides.
    The one of lower cost therefore comes first. With equal cost, the one whose other records cost less comes first.
    `fitnoise plan --refine` finds the first of all plans that meet the targets.

    Args:
        left_mechanism: A mechanism of this package, or the `table_part` of a :class:`fitnoise.Plan`.
        right_mechanism: Another one, for the same cells.
        tolerance: The share of the largest cost below which a difference is ignored; plans are rounded to integers.

    Raises:
        WorkloadError: The profiles are of different lengths, because the two are about different cells.

    Source: section 5.3, for the order.
    """
    mine, theirs = (np.sort(x.profile)[::-1] for x in (left_mechanism, right_mechanism))
    if mine.shape != theirs.shape:
        raise WorkloadError(
            "profiles-of-different-lengths",
            f"The profiles have {len(mine)} and {len(theirs)} cells.",
            "The refined order compares the costs of records in the same cells.",
            "Plan both for the same tables.",
            "Nothing was compared.",
        )
    differences = mine - theirs
    decisive = differences[np.abs(differences) > tolerance * max(mine[0], theirs[0])]
    return int(np.sign(decisive[0])) if len(decisive) else 0


BASELINES = {
    "IP": input_perturbation,
    "GM": gaussian,
    "HM": hierarchical,
    "CA": total_error,
    "CA, 1/√c": lambda w, c: total_error(w, c, 0.5),
    "CA, 1/c": lambda w, c: total_error(w, c, 1.0),
    "CA, 1/c²": lambda w, c: total_error(w, c, 2.0),
}
"""The baselines of the paper's tables, and GM, which it leaves out. For wCA-I and wCA-II see :func:`total_error`."""


def _recovery(queries: Floats, rows: Floats) -> Floats:
    """Return W A⁺; raise WorkloadError unless W A⁺ A = W."""
    recovery = queries @ np.linalg.pinv(rows)
    if (np.abs(recovery @ rows - queries) > RECOVERY_TOLERANCE * np.abs(queries).max(axis=1, keepdims=True)).any():
        raise WorkloadError(
            "query-outside-strategy",
            "A query is not a linear combination of the strategy's rows.",
            "No unbiased answer follows from these rows.",
            "Add rows that span the query.",
            "Nothing was computed.",
        )
    return np.asarray(recovery)


def _scaled(recovery: Floats, strategy: Floats, targets: Floats) -> Mechanism:
    """Return the mechanism with its noise scaled so that max_j var_j / c_j = 1."""
    worst = math.sqrt(((recovery**2).sum(axis=1) / targets).max())
    return Mechanism(recovery / worst, strategy * worst)


def _as_floats(w: npt.ArrayLike, c: npt.ArrayLike) -> tuple[Floats, Floats]:
    """Return the workload as doubles, and its targets as (m,)."""
    queries = np.asarray(w, dtype=np.float64)
    if queries.ndim != 2 or not queries.size or not np.isfinite(queries).all():
        raise WorkloadError(
            "queries-not-matrix",
            f"The queries have the shape {queries.shape}, or a number that is not finite.",
            "",
            "Give a matrix of finite numbers, with a row for each query and a column for each cell.",
            "Nothing was computed.",
        )
    targets = np.asarray(c, dtype=np.float64)
    if targets.shape not in ((), (len(queries),)) or not ((targets > 0) & np.isfinite(targets)).all():
        raise WorkloadError(
            "target-variances",
            f"The targets have the shape {targets.shape}, or a target that is not positive and finite.",
            "",
            f"Give positive variances: one for all queries, or one for each of the {len(queries)} queries.",
            "Nothing was computed.",
        )
    return queries, np.broadcast_to(targets, (len(queries),))
