"""The Ky Fan design: the Gaussian noise whose k largest variances have the least sum, at sensitivity 1.

**Symbols.**

| letter | meaning |
|---|---|
| A | the queries (m, N), one column a_e for each cell, of rank r |
| Σ, X | a covariance of noise on the answers, and X = Σ⁻¹ on the row space |
| ‖Σ‖_(k) | the sum of the k largest eigenvalues of Σ; k counts as r if it is larger |
| q | weights ≥ 0 of the cells with Σq = 1 |
| λ_i, V | the eigenvalues λ₁ ≥ λ₂ ≥ … of M = A diag(q) Aᵀ, and its eigenvectors |
| t, α | the smallest number t, and its α, with α = (Σ_{i>t} λ_i)/(k − t) ≥ λ_{t+1} |

**Statement.** The design solves

    μ = min ‖Σ‖_(k)   subject to   a_eᵀ X a_e ≤ 1 for every cell e.

k = 1 gives equal noise in all directions, and k = r the least total variance. With

    h_k(M) = Σ_{i≤t} √λ_i + (k − t) √α,

μ = max_q h_k(A diag(q) Aᵀ)². Every q gives a bound and a covariance for one eigendecomposition M = V diag(λ) Vᵀ:

| | formula |
|---|---|
| inverse precision | X₀⁻¹ = V diag(√λ_1, …, √λ_t, √α, √α, …) Vᵀ |
| slopes | g_e = a_eᵀ X₀ a_e = 2 ∂h_k/∂q_e,   Σ_e q_e g_e = h_k |
| bound | μ ≥ h_k² |
| covariance | Σ = (max_e g_e) X₀⁻¹, of sensitivity 1 and ‖Σ‖_(k) = h_k max_e g_e |

The certified gap is therefore max_e g_e / h_k − 1. It is 0 at the optimum, and only there. Σ has t ≤ k − 1 large
eigenvalues, the *spikes*; all others are equal. The directions of "the first k" are therefore not determined.

**Search.** F(p) = Σp − 2 h_k(A diag(p) Aᵀ) over p ≥ 0 is convex. Its least value is −h² for h² = μ, at p = h² q for the
best q. Three multiplicative steps q ← q g² / Σ q g² never lower h_k. Then L-BFGS-B runs. For queries given as a
matrix, projected Newton steps by conjugate gradients follow. These are scaled by √p, with the active set of Bertsekas.
Multiplicative steps follow if the search has not ended. The result is valid at the stated gap, for any course of the
search.

The problem has three forms. The queries are a matrix (:func:`ky_fan_design`). Or only products with AᵀA are known, for
workloads of millions of queries. Or the queries are tables of all marginals, where q is uniform by symmetry. For the
last two see :mod:`fitnoise_lab.ky_fan_marginals`.

**Source.** A. Nikolov, "An improved private mechanism for small databases", ICALP 2015, Theorems 4.1 and 4.2 and Lemmas
4.2.1 to 4.2.3. The paper prints μ² = max h_k², a square too many: for one column A = [a], both μ and h_1² are a². It
also prints a tail of α − ε, where only α makes Σ feasible. The corrections, the proofs of monotony and of the gap, and
the search are from this project.

**Trust.** Nothing found here is believed: :mod:`fitnoise.solving.certificates` recomputes both sides from the queries.
"""

from __future__ import annotations

import abc
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, final

import numpy as np
import scipy.linalg as sl
from numpy.typing import ArrayLike, NDArray

from fitnoise.algebra import operators as op
from fitnoise.algebra import rules
from fitnoise.errors import PlanError, WorkloadError
from fitnoise.kernel.arrays import Floats
from fitnoise.kernel.checks import checked_integer

EPS = float(np.finfo(np.float64).eps)

ROUNDING = 8 * EPS
"""The factor of the longer side of the queries: singular values below this part of the largest are rounding."""

RANK_GAP_TOLERANCE = 1e-10
"""The part of the largest singular value below which one above ROUNDING is unclear; such queries are refused."""

LARGEST, SMALLEST = 1e100, 1e-100
"""The bounds of the largest entry of the queries, whose squares are summed."""

OUTSIDE = 1e-10
"""The relative length of a column's part that may lie outside the directions of the noise, as rounding."""

EIGENVALUE_TOLERANCE = 1e-11
"""The relative difference below which an eigenvalue counts as equal to the tail; h_k depends on its square."""

FLOOR = 1e-13
"""The least weight of a cell, over the mean weight. No weight is ever 0, or M could lose the rank that k needs."""

MARGIN = 1e-11
"""The relative enlargement of Σ with which the sensitivity is at most 1 as computed, in floating point."""

MULTIPLICATIVE = 3
"""The number of multiplicative steps."""

QUASI_NEWTON, QUASI_NEWTON_WIDE = 40, 120
"""The evaluations of L-BFGS-B: more if k is above half the rank, where a Newton step costs more."""

FINAL_STEPS = 10
"""The number of multiplicative steps at a time after everything else has stalled."""

MEMORY = 20
"""The number of pairs that L-BFGS-B stores."""

MAX_CG_STEPS = 60
"""The number of conjugate gradient steps within a Newton step."""

MAX_DAMPING = 1e6
"""The damping of the Newton steps at which floating point allows no further gain."""


class KyFanStatus(StrEnum):
    """The reason why a search ended, as the id of its sentence."""

    CONVERGED = "report.status.converged"
    CLOSED_FORM = "report.status.closed_form"
    EVALUATIONS = "report.status.evaluations"
    TIME = "report.status.time"
    STALLED = "report.status.stalled"


@final
@dataclass(frozen=True, eq=False)
class KyFanDesign:
    """A covariance of sensitivity 1, and the weights that prove its gap.

    index: k, at most the rank.
    rank: r of the queries.
    weights: q ≥ 0 of the cells, (N,), Σq = 1, for the bound. A cell whose column is 0 or repeats an earlier
        one, up to sign, has weight 0.
    spikes: t, the number of eigenvalues of Σ above the equal rest.
    variances: The eigenvalues of Σ, (r,), falling; all after the first t are equal.
    basis: Their directions, (m, r), orthonormal.
    value: ‖Σ‖_(k).
    bound: h_k(A diag(q) Aᵀ)²; no covariance of sensitivity 1 is below it.
    evaluations: The number of evaluations of h_k.
    status: The reason why the search ended.
    """

    index: int
    rank: int
    weights: Floats
    spikes: int
    variances: Floats
    basis: Floats
    value: float
    bound: float
    evaluations: int
    status: KyFanStatus

    @property
    def gap(self) -> float:
        """value/bound − 1, at least 0."""
        return _gap(self.value, self.bound)

    @property
    def factor(self) -> Floats:
        """F (m, r) with Σ = F Fᵀ: noise is F z for standard normal z (r,)."""
        return self.basis * np.sqrt(self.variances)

    @property
    def covariance(self) -> Floats:
        """Σ (m, m), of rank r."""
        return np.asarray((self.basis * self.variances) @ self.basis.T)

    @property
    def precision(self) -> Floats:
        """X (m, m), the pseudo-inverse of Σ."""
        return np.asarray((self.basis / self.variances) @ self.basis.T)


def _gap(value: float, bound: float) -> float:
    return max(value / bound - 1, 0.0) if bound > 0 else math.inf


# --- the norm ----------------------------------------------------------------------------------------------------


def split(eigenvalues: ArrayLike, k: int) -> tuple[int, float]:
    """Return the smallest t with α = (Σ_{i>t} λ_i)/(k − t) ≥ λ_{t+1}, and α.

    Args:
        eigenvalues: λ, (n,), at least 0, in any order.
        k: The number of summed eigenvalues, at least 1; it counts as n if larger.

    Returns:
        t, from 0 to k − 1, and α, at least 0.

    Raises:
        WorkloadError: k is not a whole number of at least 1, or there are no eigenvalues.

    Source: Lemma 4.2.2.
    """
    values = np.sort(np.asarray(eigenvalues, dtype=np.float64).ravel())[::-1]
    k = min(checked_integer("the index of a Ky Fan norm", k), len(values))
    if not len(values):
        raise WorkloadError(
            "spectrum-empty",
            "The spectrum has no eigenvalue.",
            "",
            "Give at least one eigenvalue.",
            "Nothing was computed.",
        )
    rest = np.cumsum(values[::-1])[::-1][:k] / np.arange(k, 0, -1)
    t = int(np.argmax(rest >= values[:k] * (1 - EIGENVALUE_TOLERANCE)))  # true at t = k − 1 at the latest
    return t, float(rest[t])


def dual_norm(eigenvalues: ArrayLike, k: int) -> float:
    """Return h_k = Σ_{i≤t} √λ_i + (k − t) √α for eigenvalues λ (n,).

    They are the eigenvalues of a positive semidefinite matrix, in any order.

    Raises:
        WorkloadError: :func:`split` refuses an argument.

    **Guarantees**
        * For YYᵀ the result is the largest ⟨Z, Y⟩ with ‖Z‖ ≤ 1 and ‖Z‖_F ≤ √k, a norm of Y.
        * The result is concave in λ and rises with k.
        * h_1 = (Σλ)^½, and h_k = Σ √λ_i if k is at least the rank.

    Source: Theorem 4.2; that it is a norm of Y is from this project.
    """
    values = np.sort(np.asarray(eigenvalues, dtype=np.float64).ravel())[::-1]
    t, alpha = split(values, k)
    return float(np.sqrt(values[:t]).sum() + (min(k, len(values)) - t) * math.sqrt(alpha))


# --- one set of weights ------------------------------------------------------------------------------------------


class _Shape(NamedTuple):
    """The results for a spectrum.

    spikes: t, the number of spikes.
    alpha: α = (Σ_{i>t} λ_i)/(k − t).
    height: h_k of the spectrum.
    norm: ‖X₀⁻¹‖_(k), equal to h_k unless rounding raised α.
    """

    spikes: int
    alpha: float
    height: float
    norm: float


@final
@dataclass(frozen=True, eq=False)
class _KyFanPoint:
    """The results at weights p (N,), not normalised.

    shape: The results for the spectrum.
    slopes: g, (N,).
    values, vectors: The eigenvalues and eigenvectors of M, for later use.
    """

    weights: Floats
    shape: _Shape
    slopes: Floats
    values: Floats
    vectors: Floats

    @property
    def top(self) -> Floats:
        """The eigenvalues λ_1..λ_t."""
        return self.values[: self.shape.spikes]

    @property
    def alpha(self) -> float:
        return self.shape.alpha

    @property
    def height(self) -> float:
        return self.shape.height

    @property
    def objective(self) -> float:
        return float(self.weights.sum()) - 2 * self.height

    @property
    def upper(self) -> float:
        # Scaling p scales the norm by its root and the slopes by the inverse root.
        return self.shape.norm * float(self.slopes.max())

    @property
    def lower(self) -> float:
        return self.height**2 / float(self.weights.sum())

    @property
    def gap(self) -> float:
        return self.upper / self.lower - 1


def _shape(values: Floats, k: int, total: float | None) -> _Shape:
    """Return the shape from all eigenvalues, falling; or from the k largest and the trace."""
    if total is None:  # sum the small ones, instead of subtracting the large
        rest = np.cumsum(values[::-1])[::-1][:k] / np.arange(k, 0, -1)
    else:
        before = np.concatenate([[0.0], np.cumsum(values[: k - 1])])
        rest = np.maximum(total - before, 0.0) / np.arange(k, 0, -1)
    # t is the smallest number with α ≥ λ_{t+1}.
    enough = rest >= values[:k] * (1 - EIGENVALUE_TOLERANCE)
    t = int(np.argmax(enough)) if enough.any() else k - 1
    rounded = float(rest[t])
    # Rounding can leave α = 0, and the slopes divide by its root. A larger α makes Σ larger, never too small.
    alpha = max(rounded, EPS * float(values[0]))
    spikes = float(np.sqrt(values[:t]).sum())
    return _Shape(t, alpha, spikes + (k - t) * math.sqrt(rounded), spikes + (k - t) * math.sqrt(alpha))


class _KyFanProblem(abc.ABC):
    """A problem of N cells, none of them repeated."""

    cells: int
    index: int

    @abc.abstractmethod
    def point_at(self, p: Floats) -> _KyFanPoint:
        """Return h_k and its slopes at positive weights."""


@final
class _RowSpaceQueries(_KyFanProblem):
    """The queries in coordinates of their row space: B (r, N)."""

    def __init__(self, columns: Floats, k: int) -> None:
        self.columns, self.index = columns, k
        self.cells = columns.shape[1]
        self.squares = np.einsum("ie,ie->e", columns, columns)

    def point_at(self, p: Floats) -> _KyFanPoint:
        b = self.columns * np.sqrt(p)
        values, vectors = sl.eigh(b @ b.T, driver="evd", check_finite=False, overwrite_a=True)
        values, vectors = np.maximum(values[::-1], 0.0), vectors[:, ::-1]
        k = self.index
        shape = _shape(values, k, None)
        t, alpha = shape.spikes, shape.alpha
        roots = np.sqrt(values[:t])
        # The equal directions share one factor, so ‖a_e‖² replaces their coordinates.
        if 2 * t < len(values):
            coordinates = vectors[:, :t].T @ self.columns
            slopes = (1 / roots - 1 / math.sqrt(alpha)) @ coordinates**2 + self.squares / math.sqrt(alpha)
        else:
            coordinates = vectors.T @ self.columns
            slopes = 1 / np.concatenate([roots, np.full(len(values) - t, math.sqrt(alpha))]) @ coordinates**2
        return _KyFanPoint(p, shape, slopes, values, vectors)

    def hessian(self, point: _KyFanPoint, free: NDArray[np.bool_]) -> Callable[[Floats], Floats]:
        """Return the product v ↦ F''(p) v on the n cells with `free` True, v (n,), from the eigenvectors of p.

        Let C = VᵀB for the columns B of these cells, with f' = ½ λ^−½ on the spikes and ½ α^−½ on the rest. Two
        directions i, j, of which one is a spike, have the divided difference d_ij = (f'_i − f'_j)/(λ_i − λ_j). The rest
        as a whole has −¼ α^(−3/2)/(k − t). Then (F'' v)_e = −2 Σ_ij d_ij C_ie C_je (C diag(v) Cᵀ)_ij.
        """
        t, alpha = len(point.top), point.alpha
        columns = self.columns if free.all() else self.columns[:, free]
        head, tail = point.vectors[:, :t], point.vectors[:, t:]
        head_columns, roots = head.T @ columns, np.sqrt(point.top)[:, None]
        squares = np.maximum(self.squares[free] - (head_columns**2).sum(axis=0), 0.0)
        head_factors = -0.5 / (roots * roots.T * (roots + roots.T))
        # A spike may equal the rest within EIGENVALUE_TOLERANCE; the floor keeps the quotient finite.
        differences = np.maximum(
            point.top[:, None] - point.values[None, t:], EPS * max(float(point.values[0]), np.finfo(float).tiny)
        )
        across = (1 / roots - 1 / math.sqrt(alpha)) / differences  # twice, for ij and ji
        rest = -0.25 * alpha**-1.5 / (self.index - t)

        def product(v: Floats) -> Floats:
            out = rest * float(squares @ v) * squares
            if t:
                moment = (head_columns * v) @ columns.T
                images = (head_factors * (moment @ head)) @ head_columns + (
                    (across * (moment @ tail)) @ tail.T
                ) @ columns
                out = out + (images * head_columns).sum(axis=0)
            return np.asarray(-2 * out)

        return product


# --- the search --------------------------------------------------------------------------------------------------


class _SearchDone(Exception):
    """The signal that the search is over, with the reason as a status."""

    def __init__(self, ending: KyFanStatus) -> None:
        super().__init__(ending)
        self.ending = ending


class _KyFanSearch:
    """The best point on either side so far, and the limits of the search."""

    def __init__(self, problem: _KyFanProblem, tolerance: float, evaluations: int, seconds: float | None) -> None:
        self.problem, self.limit = problem, evaluations
        self.tolerance = 0.99 * (tolerance - min(tolerance / 2, 2 * MARGIN))  # the rest is for rounding and MARGIN
        self.deadline = math.inf if seconds is None else time.monotonic() + seconds
        self.evaluations = 0
        self.primal: _KyFanPoint | None = None
        self.dual: _KyFanPoint | None = None

    def best(self) -> tuple[_KyFanPoint, _KyFanPoint]:
        """Return the covariance of least norm and the highest bound."""
        if self.primal is None or self.dual is None:
            raise PlanError(
                "queries-not-finite",
                "The queries cannot be evaluated in floating point.",
                "",
                "Scale the queries so that they are of similar size.",
                "No design was made.",
            )
        return self.primal, self.dual

    def evaluate(self, p: Floats) -> _KyFanPoint:
        """Evaluate the problem at weights.

        Raises:
            _SearchDone: The gap is closed, or a limit is reached.
        """
        if self.evaluations >= self.limit:
            raise _SearchDone(KyFanStatus.EVALUATIONS)
        # The first evaluation always runs, for without it there is no design.
        if self.evaluations and time.monotonic() > self.deadline:
            raise _SearchDone(KyFanStatus.TIME)
        self.evaluations += 1
        point = self.problem.point_at(p)
        # Every q proves a bound and gives a covariance, so the best of each may come from different weights.
        if self.primal is None or point.upper < self.primal.upper:
            self.primal = point
        if self.dual is None or point.lower > self.dual.lower:
            self.dual = point
        if self.primal.upper <= self.dual.lower * (1 + self.tolerance):
            raise _SearchDone(KyFanStatus.CONVERGED)
        return point

    def run(self) -> KyFanStatus:
        """Search until a limit or floating point stops it."""
        try:
            point = self._multiplied()
            if isinstance(self.problem, _RowSpaceQueries):
                wide = 2 * self.problem.index > len(self.problem.columns)
                self._descended(point, self.evaluations + (QUASI_NEWTON_WIDE if wide else QUASI_NEWTON))
                self._newton(self.problem)
            else:
                self._descended(point, self.limit)
            self._finished()
        except _SearchDone as stop:
            return stop.ending
        return KyFanStatus.STALLED

    def _multiplied(self) -> _KyFanPoint:
        """Take multiplicative steps from equal weights, and return the multiple of the last where Σp = h²."""
        n = self.problem.cells
        point = self.evaluate(np.full(n, 1 / n))
        for _ in range(MULTIPLICATIVE):
            point = self.evaluate(multiplicative_step(point.weights, point.slopes))
        return self.evaluate(_floored(point.weights * point.height**2))

    def _descended(self, start: _KyFanPoint, until: int) -> None:
        """Run L-BFGS-B up to a total of `until` evaluations."""
        n = self.problem.cells
        unit = float(start.weights.mean())

        def value(x: Floats) -> tuple[float, Floats]:
            if self.evaluations >= until:
                raise _EvaluationLimit
            point = self.evaluate(x * unit)
            return point.objective / unit, 1 - point.slopes

        import scipy.optimize as so  # takes as long as a small plan

        bounds = [(FLOOR, math.inf)] * n
        try:
            so.minimize(
                value,
                start.weights / unit,
                jac=True,
                method="L-BFGS-B",
                bounds=bounds,
                # Its own tests would end at a small slope, far from a small gap; only the gap and the limits count
                # here.
                options={"maxcor": MEMORY, "maxiter": 10**6, "maxfun": 10**6, "ftol": 0.0, "gtol": 0.0},
            )
        except _EvaluationLimit:
            return

    def _newton(self, rows: _RowSpaceQueries) -> None:
        """Take projected Newton steps from the best weights so far, until floating point ends it."""
        dual = self.best()[1]
        point = self.evaluate(_floored(dual.weights * (dual.height / float(dual.weights.sum())) ** 2))
        damping = 1e-3
        while damping < MAX_DAMPING:
            p, slope = point.weights, 1 - point.slopes
            largest = float(p.max())
            # Steps go with the scale, so that a weight near 0 could not grow again without this lower bound.
            scale = np.maximum(p, 1e-6 * largest)
            displacement = float(np.abs(p - np.maximum(p - slope * scale, 0)).max())
            # Bertsekas: cells near 0 with a positive slope go to 0; the Newton step is for the others.
            active = (p <= min(1e-3 * largest, displacement)) & (slope > 0)
            free = ~active
            if not free.any():
                return
            root = np.sqrt(scale[free])
            curve = rows.hessian(point, free)
            # Active cells go to 0, where `_floored` keeps a trace of them.
            step = -p
            step[free] = root * _conjugate(curve, root, damping, -slope[free] * root)
            length, accepted = 1.0, None
            for _ in range(12):
                tried = self.evaluate(_floored(p + length * step))
                if _better(tried, point, float(slope @ (tried.weights - p))):
                    accepted = tried
                    break
                length *= 0.4
            if accepted is None:
                damping *= 10
                continue
            damping = max(damping * (0.3 if length == 1.0 else 2.0), 1e-12)
            point = accepted

    def _finished(self) -> None:
        """Take multiplicative steps again while each `FINAL_STEPS` of them narrow the gap by more than a tenth."""
        point = self.best()[1]
        gap = math.inf
        while self.gap < 0.9 * gap:
            gap = self.gap
            for _ in range(FINAL_STEPS):
                point = self.evaluate(multiplicative_step(point.weights, point.slopes))

    @property
    def gap(self) -> float:
        """The gap between the best of either side."""
        primal, dual = self.best()
        return primal.upper / dual.lower - 1


class _EvaluationLimit(Exception):
    """The signal that L-BFGS-B has made its evaluations."""


def multiplicative_step(weights: ArrayLike, slopes: ArrayLike) -> Floats:
    """Return q ← q g² / Σ q g² (N,), none below FLOOR of the mean, from weights q (N,) and slopes g (N,).

    **Guarantees**
        * Before the floor, h_k does not fall: h_k(q') ≥ (Σ q g²)^½ ≥ h_k(q) for Σq = 1.

    Proof: For Z that attains h_k(q) in :func:`dual_norm`, h_k(q') ≥ Σ √(q'_e q_e) g_e, and q' maximises the right side.

    Source: this project; for k = r it is the step known from D-optimal and A-optimal designs.
    """
    q, g = np.asarray(weights, dtype=np.float64), np.asarray(slopes, dtype=np.float64)
    scaled = q * (g / g.max()) ** 2
    return _floored(scaled / scaled.sum())


def _floored(p: Floats) -> Floats:
    """Return weights of which none is below FLOOR of the mean."""
    p = np.maximum(p, 0.0)
    return np.maximum(p, FLOOR * float(p.mean()))


def _conjugate(product: Callable[[Floats], Floats], scale: Floats, damping: float, b: Floats) -> Floats:
    """Solve (S H S + damping I) x = b, S = diag(scale), by conjugate gradients; the accuracy rises as b falls."""
    x, r = np.zeros_like(b), b.copy()
    direction, size = b.copy(), float(b @ b)
    if size == 0:
        return x
    enough = min(0.01, math.sqrt(size)) * size
    for _ in range(MAX_CG_STEPS):
        image = scale * product(scale * direction) + damping * direction
        bend = float(direction @ image)
        if bend <= 0:  # rounding
            break
        step = size / bend
        x += step * direction
        r -= step * image
        new_size = float(r @ r)
        if new_size < enough:
            break
        direction = r + new_size / size * direction
        size = new_size
    return x


def _better(new: _KyFanPoint, old: _KyFanPoint, promised: float) -> bool:
    """Return True if a step is accepted.

    F must fall by a part of the decrease that its slope promises. At round-off, the gap must not rise.

    promised: The change of F by its slope, below 0 for a decrease.
    """
    fell = new.objective - old.objective
    return fell <= 1e-4 * promised or (abs(fell) < 1e-13 * abs(old.objective) and new.gap <= old.gap)


# --- a matrix ----------------------------------------------------------------------------------------------------


def ky_fan_design(
    queries: ArrayLike | op.Operator,
    k: int,
    *,
    tolerance: float = 1e-6,
    evaluations: int = 400,
    seconds: float | None = None,
) -> KyFanDesign:
    """Return the covariance Σ of least ‖Σ‖_(k) among those with a_eᵀ Σ⁻¹ a_e ≤ 1 for every column a_e of the queries.

    Args:
        queries: A, (m, N), a matrix of finite numbers or an operator, which is written out. Only its row space counts.
            Columns that are 0, or that repeat another up to sign, are left out of the search. 1024 × 4096 takes
            seconds.
        k: The number of largest variances that are summed, at least 1; the rank if it is larger.
        tolerance: The relative gap to be certified, positive.
        evaluations: The largest number of evaluations of h_k, each one eigendecomposition.
        seconds: The time limit in seconds, or None. With a limit, the result depends on the machine.

    Returns:
        The design. Its status names the reason why the search ended. A failed search shows in the status and in the
        gap, and never raises.

    Raises:
        WorkloadError: k is not a whole number of at least 1, or the limits are not positive. Or the queries are not a
            matrix of finite numbers, all 0, or too large or small for floating point. Or rounding hides their rank or
            the direction of a column.
        PlanError: The queries cannot be evaluated in floating point.

    **Guarantees**
        * a_eᵀ Σ⁻¹ a_e ≤ 1 holds as computed from `basis` and `variances`, in floating point.
        * bound ≤ μ ≤ value holds up to rounding, for any status.
        * `basis` has orthonormal columns that span those of A, to rounding.
        * Equal queries give equal designs with one version of NumPy and SciPy, without a time limit: no step is random.

    Source: Theorem 4.2 and Lemma 4.2.3; see the module.
    """
    k = checked_integer("the index of a Ky Fan norm", k)
    _limits(tolerance, evaluations, seconds)
    a = _matrix(queries)
    size = float(np.abs(a).max())
    if size == 0:
        raise WorkloadError(
            "queries-all-zero",
            "All entries of the queries are 0.",
            "Such queries need no noise.",
            "Give queries that count at least one cell.",
            "No design was made.",
        )
    if not SMALLEST <= size <= LARGEST:
        raise WorkloadError(
            "queries-out-of-range",
            f"The largest entry of the queries is {size:.1e}, and its square leaves floating point.",
            "",
            "Scale the queries.",
            "No design was made.",
        )
    distinct = _distinct(a)
    columns = a[:, distinct] / size
    basis = _column_space(columns)
    rank = basis.shape[1]
    inside = basis.T @ columns
    if (((columns - basis @ inside) ** 2).sum(axis=0) > OUTSIDE**2 * (columns**2).sum(axis=0)).any():
        raise WorkloadError(
            "column-lost-to-rounding",
            "Rounding hides the direction of some column of the queries, which is far smaller than others.",
            "Each direction must receive noise.",
            "Scale the queries so that their columns are of similar size.",
            "No design was made.",
        )
    k = min(k, rank)
    rows = _RowSpaceQueries(inside, k)
    if k == 1:
        return _isotropic(a, distinct, basis, rows)
    scale = float(np.sqrt(rows.squares.max()))
    rows = _RowSpaceQueries(rows.columns / scale, k)
    search = _KyFanSearch(rows, tolerance, evaluations, seconds)
    ending = search.run()
    primal, dual = search.best()
    t = len(primal.top)
    variances = np.concatenate([np.sqrt(primal.top), np.full(rank - t, math.sqrt(primal.alpha))])
    rotated = primal.vectors.T @ rows.columns
    # The sensitivity is computed again from the coordinates that the design states, so that it holds as computed.
    variances *= float((1 / variances @ rotated**2).max()) * (1 + MARGIN) * (size * scale) ** 2
    weights = np.zeros(a.shape[1])
    weights[distinct] = dual.weights / dual.weights.sum()
    value, bound = float(variances[:k].sum()), dual.lower * (size * scale) ** 2
    # The final sensitivity and MARGIN can put the gap above the one that the search saw.
    if ending is KyFanStatus.CONVERGED and _gap(value, bound) > tolerance:
        ending = KyFanStatus.STALLED
    return KyFanDesign(
        index=k,
        rank=rank,
        weights=weights,
        spikes=t,
        variances=variances,
        basis=basis @ primal.vectors,
        value=value,
        bound=bound,
        evaluations=search.evaluations,
        status=ending,
    )


def _isotropic(a: Floats, columns: NDArray[np.intp], basis: Floats, rows: _RowSpaceQueries) -> KyFanDesign:
    """Return the design of k = 1: all the weight on a longest column, μ its squared length."""
    squares = (a[:, columns] ** 2).sum(axis=0)
    longest = int(np.argmax(squares))
    weights = np.zeros(a.shape[1])
    weights[columns[longest]] = 1.0
    mu = float(squares[longest])
    variances = np.full(len(rows.columns), mu * (1 + MARGIN))
    return KyFanDesign(
        index=1,
        rank=len(variances),
        weights=weights,
        spikes=0,
        variances=variances,
        basis=basis,
        value=float(variances[0]),
        bound=mu,
        evaluations=0,
        status=KyFanStatus.CLOSED_FORM,
    )


def _limits(tolerance: float, evaluations: int, seconds: float | None) -> None:
    if (
        not tolerance > 0
        or not math.isfinite(tolerance)
        or evaluations < 1
        or (seconds is not None and not seconds > 0)
    ):
        raise WorkloadError(
            "search-limits-unusable",
            f"The limits of the search are {tolerance!r}, {evaluations!r} and {seconds!r}.",
            "A search needs a positive tolerance, at least one evaluation, and positive seconds or None.",
            "Give limits of these kinds.",
            "No design was made.",
        )


def _matrix(queries: ArrayLike | op.Operator) -> Floats:
    a = rules.dense(queries) if isinstance(queries, op.Operator) else op.Dense(np.asarray(queries)).matrix
    return np.asarray(a, dtype=np.float64)


def _distinct(a: Floats) -> NDArray[np.intp]:
    """Return the first of every set of columns that are equal up to sign, without zero columns; rising."""
    there = np.flatnonzero((a != 0).any(axis=0))
    columns = a.T[there]
    leading = columns[np.arange(len(columns)), (columns != 0).argmax(axis=1)]
    signed = np.ascontiguousarray(columns * np.sign(leading)[:, None]) + 0.0  # no −0, whose bytes differ from 0
    as_bytes = signed.view(np.dtype((np.void, signed.dtype.itemsize * signed.shape[1]))).ravel()
    return np.asarray(np.sort(there[np.unique(as_bytes, return_index=True)[1]]))


def _column_space(a: Floats) -> Floats:
    """Return an orthonormal basis (m, r) of the columns of a, or raise WorkloadError if their rank is unclear."""
    # A basis from AᵀA would lose half the digits.
    m, n = a.shape
    if m <= n:
        triangle = sl.qr(a.T, mode="r", check_finite=False)[0][:m]
        axes, values, _ = sl.svd(triangle.T, full_matrices=False, check_finite=False)
        return np.asarray(axes[:, : _rank(values, max(m, n))])
    q, triangle = sl.qr(a, mode="economic", check_finite=False)
    axes, values, _ = sl.svd(triangle, full_matrices=False, check_finite=False)
    return np.asarray(q @ axes[:, : _rank(values, max(m, n))])


def _rank(values: Floats, longer: int) -> int:
    """Return the number of singular values that are not rounding, or raise WorkloadError if one is unclear.

    values: The singular values, falling.
    longer: The longer side of the matrix.
    """
    relative = values / values[0]
    unclear = relative[(relative > ROUNDING * longer) & (relative < RANK_GAP_TOLERANCE)]
    if len(unclear):
        raise WorkloadError(
            "rank-unclear",
            f"The rank of the queries is unclear: one singular value is {unclear[0]:.1e} of the largest.",
            "",
            "Scale cells or queries that are far smaller than others, or merge cells that are nearly equal.",
            "No design was made.",
        )
    return int((relative >= RANK_GAP_TOLERANCE).sum())
