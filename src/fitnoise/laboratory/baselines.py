"""What other mechanisms cost at the same accuracy, and what your own does: the baselines of the fit-for-use paper.

Every one is a factorisation W = R A: it measures A x with independent unit Gaussian noise and publishes R times the
answers. Its profile is the squared norms of the columns of A, its variances those of the rows of R. All are scaled so
that the worst number meets its target exactly; `cost` is then the Δ² at which every target is met. The paper fixes the
cost instead and prints by how much the worst variance exceeds its target: that is the ratio of `cost` to the optimum
(Theorem 5).

| function | strategy A | of the paper |
|---|---|---|
| :func:`input_perturbation` | the cells | IP |
| :func:`gaussian` | the queries themselves | named, and left out |
| :func:`hierarchical` | a tree over the cells | HM |
| :func:`total_error` | that of the least total error | CA; weighted: wCA-I, wCA-II |
| :func:`measured` | your own | |

:func:`beside_optimum` says what any of them costs against the certified optimum, :func:`refined_order` which of two
mechanisms or plans asks less of its records.

Source: Xiao, Ding, Wang, Zhang, Kifer: Optimizing fitness-for-use of differentially private linear queries, PVLDB
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
from fitnoise.laboratory.strategies import branching_factor
from fitnoise.mechanisms.laplace.hierarchies import hierarchy
from fitnoise.planning.choosing import plan
from fitnoise.request.publication import ErrorWeights, Goal, Objective
from fitnoise.request.workloads import matrix_workload

OUTSIDE = 1e-7
"""Part of a query's largest entry by which what a strategy answers may differ from it."""


@final
@dataclass(frozen=True, eq=False)
class Mechanism:
    """A Gaussian linear mechanism: recovery R (m, s) times noisy answers to strategy A (s, d), with R A = W."""

    recovery: Floats
    strategy: Floats

    @property
    def variances(self) -> Floats:
        """Of the published numbers, (m,)."""
        return np.asarray((self.recovery**2).sum(axis=1))

    @property
    def profile(self) -> Floats:
        """Squared cost of one record in each cell, (d,)."""
        return np.asarray((self.strategy**2).sum(axis=0))

    @property
    def cost(self) -> float:
        """Δ²: the largest of the profile."""
        return float(self.profile.max())


def measured(w: npt.ArrayLike, c: npt.ArrayLike, strategy: npt.ArrayLike) -> Mechanism:
    """A strategy A measured with independent noise and the workload by least squares: R = W A⁺, which is the best R.

    Args:
        w: the queries W, (m, d).
        c: variances that are targets, (m,) or one for all.
        strategy: A, (s, d); how it is scaled does not matter.

    Raises:
        WorkloadError: the arrays do not fit together, a target is not positive, or a query is no combination of A.
    """
    queries, targets = _asked(w, c)
    rows = np.asarray(strategy, dtype=np.float64)
    if rows.ndim != 2 or rows.shape[1] != queries.shape[1] or not np.isfinite(rows).all():
        raise WorkloadError(
            "strategy-columns",
            f"The strategy has the shape {rows.shape}, or a number that is not finite.",
            "",
            f"Give finite numbers in a matrix with one column for each of the {queries.shape[1]} cells.",
            "Nothing was computed.",
        )
    recovery = queries @ np.linalg.pinv(rows)
    if (np.abs(recovery @ rows - queries) > OUTSIDE * np.abs(queries).max(axis=1, keepdims=True)).any():
        raise WorkloadError(
            "query-outside-strategy",
            "A query is not a linear combination of the strategy's rows.",
            "No unbiased answer follows from these rows.",
            "Add rows that span the query.",
            "Nothing was computed.",
        )
    return _scaled(recovery, rows, targets)


def of_covariance(w: npt.ArrayLike, c: npt.ArrayLike, basis: npt.ArrayLike, covariance: npt.ArrayLike) -> Mechanism:
    """Noise of this covariance Σ on B x, scaled: A = F⁻¹B and R = (W B⁺) F for Σ = F Fᵀ. B has full row rank.

    Args:
        w: W (m, N), the queries.
        c: (m,), the target variances.
        basis: B (r, N).
        covariance: Σ (r, r), positive definite.
    """
    queries, targets = _asked(w, c)
    rows, factor = np.asarray(basis, dtype=np.float64), np.linalg.cholesky(np.asarray(covariance, dtype=np.float64))
    recovery, strategy = queries @ np.linalg.pinv(rows) @ factor, np.linalg.solve(factor, rows)
    return _scaled(np.asarray(recovery, dtype=np.float64), np.asarray(strategy, dtype=np.float64), targets)


def input_perturbation(w: npt.ArrayLike, c: npt.ArrayLike) -> Mechanism:
    """IP: independent noise of one variance on every cell, A = I. Δ² = max_j ‖w_j‖²/c_j.

    Args:
        w: W (m, N), the queries.
        c: (m,), the target variances.
    """
    queries, targets = _asked(w, c)
    return _scaled(queries, np.eye(queries.shape[1]), targets)


def gaussian(w: npt.ArrayLike, c: npt.ArrayLike) -> Mechanism:
    """GM: independent noise of variance c_j on the j-th number, A = diag(c)^-½ W. Δ² = max_i Σ_j W_ji²/c_j.

    Nothing is averaged afterwards: every target is met exactly. The paper calls this always significantly worse than
    CA and leaves it out; it is within 1/d of the optimum for the identity and the sum (2 against 2d/(1 + d)), and costs
    4 for PL94, where CA costs 13.76.

    Args:
        w: W (m, N), the queries.
        c: (m,), the target variances.
    """
    queries, targets = _asked(w, c)
    return Mechanism(np.diag(np.sqrt(targets)), queries / np.sqrt(targets)[:, None])


def hierarchical(w: npt.ArrayLike, c: npt.ArrayLike, branching: int | None = None) -> Mechanism:
    """HM: a tree over the cells in their order, root included, all nodes with the same noise, and least squares.

    Args:
        w: W (m, N), the queries.
        c: (m,), the target variances.
        branching: children of a node; None takes the `branching_factor` of the number of cells. What the paper prints
            for ranges and marginals agrees with ⌈√n⌉, two levels below the root.
    """
    n = _asked(w, c)[0].shape[1]
    return measured(w, c, hierarchy(n, branching or branching_factor(n)))


WEIGHTS = {0.0: ErrorWeights.UNIFORM, 0.5: ErrorWeights.INVERSE_STD_ERROR, 1.0: ErrorWeights.INVERSE_VARIANCE}


def total_error(w: npt.ArrayLike, c: npt.ArrayLike, power: float = 0.0, gap: float = 1e-7) -> Mechanism:
    """CA and its weighted forms: the covariance of the least Σ_j c_j^-power var_j, scaled until the worst target holds.

    As the paper words them, wCA-I has the weights 1/c (power 1) and wCA-II 1/√c (power ½). Its tables 6 and 8 agree
    with queries multiplied by these weights, so that their squared errors have 1/c² (power 2) and 1/c (power 1).

    Args:
        w: W (m, N), the queries.
        c: (m,), the target variances.
        power: of the variances, in the weights.
        gap: certified, of the total. The optimal covariance is unique, but single variances are only as near to theirs
            as the square root of the gap.
    """
    queries, targets = _asked(w, c)
    if power in WEIGHTS:
        rows, weights = queries, WEIGHTS[power]
    else:
        rows, weights = queries * targets[:, None] ** (-power / 2), ErrorWeights.UNIFORM
    made = plan(matrix_workload(rows, variances=targets), objective=Objective(Goal.TOTAL_ERROR, weights), gap=gap)
    (sector,) = made.strategy.sectors
    return measured(queries, targets, np.asarray(sector.rows, dtype=np.float64) / sector.scale)


@final
@dataclass(frozen=True)
class Beside:
    """What a mechanism costs beside the optimum.

    Attributes:
        cost: its Δ² at which every target is met.
        optimum: that of a certified plan.
        bound: what no unbiased Gaussian linear mechanism is below.
        total: its sum of variances over that of the plan, both at one privacy cost.
    """

    cost: float
    optimum: float
    bound: float
    total: float

    @property
    def ratio(self) -> float:
        """Cost over optimum: by how much the worst variance exceeds its target at the plan's privacy cost."""
        return self.cost / self.optimum


def beside_optimum(w: npt.ArrayLike, c: npt.ArrayLike, mechanism: Mechanism) -> Beside:
    """What a mechanism for a workload costs against the certified optimum. Data-free.

    Raises:
        WorkloadError: the mechanism does not answer the workload, or the workload cannot be planned.
    """
    queries, targets = _asked(w, c)
    there = mechanism.recovery @ mechanism.strategy
    if there.shape != queries.shape or np.abs(there - queries).max() > OUTSIDE * np.abs(queries).max():
        raise WorkloadError(
            "mechanism-of-other-queries",
            "The mechanism answers other queries than the workload, as R A is not W.",
            "",
            "Give a mechanism for these queries.",
            "Nothing was computed.",
        )
    own = _scaled(mechanism.recovery, mechanism.strategy, targets)
    best = plan(matrix_workload(queries, variances=targets))
    total = own.cost * float(own.variances.sum()) / (best.cost_squared * float(best.variances.sum()))
    return Beside(own.cost, best.cost_squared, best.bound, total)


class Priced(Protocol):
    """A mechanism, or a plan for tables of one part: what it asks of records."""

    @property
    def profile(self) -> Floats:
        """Squared cost of one record in each cell."""


def refined_order(one: Priced, other: Priced, tolerance: float = 1e-6) -> int:
    """Which of two asks less of its records, in the refined order: −1 the first, 1 the second, 0 neither.

    What records pay is compared from the dearest cell to the cheapest, and the first difference decides. So one of
    lower cost comes first, and of equal cost the one whose other records pay less. `fitnoise plan --refine` finds the
    first of all plans that meet the targets.

    Args:
        one: a mechanism of this room, or a :class:`fitnoise.Plan` for tables of one part.
        other: likewise, about as many cells.
        tolerance: part of the dearest below which a difference is none; plans are rounded to integers.

    Raises:
        WorkloadError: the profiles are of different lengths: the two are about different cells.

    Source: section 5.3, for the order.
    """
    mine, theirs = (np.sort(x.profile)[::-1] for x in (one, other))
    if mine.shape != theirs.shape:
        raise WorkloadError(
            "profiles-of-different-lengths",
            f"The profiles have {len(mine)} and {len(theirs)} cells.",
            "The refined order compares the costs of records in the same cells.",
            "Plan both for the same tables.",
            "Nothing was compared.",
        )
    apart = mine - theirs
    told = apart[np.abs(apart) > tolerance * max(mine[0], theirs[0])]
    return int(np.sign(told[0])) if len(told) else 0


BASELINES = {
    "IP": input_perturbation,
    "GM": gaussian,
    "HM": hierarchical,
    "CA": total_error,
    "CA, 1/√c": lambda w, c: total_error(w, c, 0.5),
    "CA, 1/c": lambda w, c: total_error(w, c, 1.0),
    "CA, 1/c²": lambda w, c: total_error(w, c, 2.0),
}
"""Those of the paper's tables, and GM, which it leaves out. See :func:`total_error` for what wCA-I and wCA-II are."""


def _scaled(recovery: Floats, strategy: Floats, targets: Floats) -> Mechanism:
    """The mechanism with its noise scaled so that max_j var_j / c_j = 1."""
    worst = math.sqrt(((recovery**2).sum(axis=1) / targets).max())
    return Mechanism(recovery / worst, strategy * worst)


def _asked(w: npt.ArrayLike, c: npt.ArrayLike) -> tuple[Floats, Floats]:
    """The workload as doubles, and its targets as (m,)."""
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
            f"The targets have the shape {targets.shape}, or one that is not positive and finite.",
            "",
            f"Give positive variances: one for all queries, or one for each of the {len(queries)} queries.",
            "Nothing was computed.",
        )
    return queries, np.broadcast_to(targets, (len(queries),))
