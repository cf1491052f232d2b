"""SM-II, the algorithm of the fit-for-use paper: Newton's method on soft maxima of growing sharpness.

**Purpose.** The module is a baseline for measurements: it proves no bound, and no plan uses it.

**Statement.** Let W = L B with columns b_i of B and rows v_j of L. Problem 3 minimises max_i b_iᵀΣ⁻¹b_i + max_j
v_jΣv_jᵀ/c_j. Its optimum is 2Δ*, reached by a Σ that is optimal for Problem 1 once scaled to meet the targets (Theorem
12). Problem 4 puts soft maxima in place of the maxima,

    F(Σ) = 1/t₁ log Σ_i exp(t₁ b_iᵀΣ⁻¹b_i) + 1/t₂ log Σ_j exp(t₂ v_jΣv_jᵀ/c_j).                            (8)

Algorithms 1–3 minimise it for t₁ = t₂ = 1, MU, MU², … by a few steps of conjugate gradients and a backtracking line
search.

**The Hessian.** Let g_i = b_iᵀΣ⁻¹b_i and h_j = v_jΣv_jᵀ/c_j, with soft-max weights w and u. Let A = Σ_i w_i ∇g_i and H
= Σ_j u_j ∇h_j. The Hessian applied to a symmetric P is

    Σ_i w_i ∇²g_i[P] + t₁ (Σ_i w_i ⟨∇g_i,P⟩ ∇g_i − ⟨A,P⟩ A) + t₂ (Σ_j u_j ⟨∇h_j,P⟩ ∇h_j − ⟨H,P⟩ H).

Equation (14) as printed differs in two places. Its first term is t₁ Σ_i w_i ∇²g_i[P] (in t₁F: t₁² for t₁). For the
outer products ⟨A,P⟩ A and ⟨H,P⟩ H it has A P A and H P H. These are the Kronecker products A ⊗ A and H ⊗ H. (For ∇g_i
and ∇h_j, of rank one, the two are equal.) The first error makes the curvature up to t₁ times too large. The steps
become too short, and |⟨s,∇F⟩| falls below NTTOL far from the optimum. The second error subtracts too little along A and
H and too much across them. It can make the curvature negative, and the direction one of ascent.

**Two readings.** The paper and the program its authors published differ; `AlgorithmVariant` has both.

| | PAPER | CODE |
|---|---|---|
| minimised | F | t₁ and t₂ times the two parts of F, which NTTOL and TOL2 then mean |
| next t₂ | MU t₂ | MU times the new t₁, so 2 t₁ from then on for MU = 2 |
| no direction of descent | – | −∇F instead |
| Σ₀ | 0.99 min_j c_j/‖v_j‖² I (section 6.3 with Q = I) | k min_j c_j/‖v_j‖² I |

CODE and the printed Hessian, which the program has too, reproduce the paper's Table 2. They also give the cost that its
Table 10 implies for 4³ cells, 3.516. The correct Hessian does not give this cost (the optimum is 3.471896).

**Open points of the paper**, and the choices made here.

* The second sum of (8) lacks its exp.
* Line 10 of Algorithm 1 searches along v, meaning s.
* Its listing goes on to the line search after t is raised. The text says "otherwise", which this module follows.
* σ² of section 6.3 is the least over all m queries, not the first d.
* Q⁺Q⁺ᵀ is the covariance of x, not of B x. It is only a start, and taken as printed.
* Algorithm 3 need not end; here it has MAXLS halvings.
* NTTOL, TOL, MAXITER and one MU of {2, 5, 10} are not stated: the defaults are those of the published program.

**Source.** Xiao, Ding, Wang, Zhang, Kifer, "Optimizing Fitness-For-Use of Differentially Private Linear Queries", PVLDB
14(10), 2021, section 6. For CODE, github.com/cmla-psu/matrixqueries (settings only; the code here is from this
project).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from typing import NamedTuple, final

import numpy as np
import scipy.linalg as sl
from numpy.typing import ArrayLike

from fitnoise.errors import WorkloadError
from fitnoise.kernel.arrays import Floats

MAXCG = 5
"""The steps of conjugate gradients per direction (section 6.2.2)."""

TOL2 = 1e-10
"""The squared residual at which they stop early (section 6.2.2)."""

SHRINK = 0.5
"""β, the factor of the step in the line search (Algorithm 3)."""

DECREASE = 0.01
"""σ, the share of the predicted decrease that a step must reach (section 6.2.3)."""

START = 0.99
"""The largest variance over target at the start (section 6.3)."""

MAXITER = 1_000_000

NTTOL = 1e-3
"""The bound of |⟨s,∇F⟩| below which t is raised."""

TOL = 1e-3
"""The bound of (d + m)/t₁ below which the search ends."""

MU = 2.0
"""The factor by which t₁ and t₂ are raised."""

MAXLS = 60
"""The number of halvings of a step before the line search gives up; Algorithm 3 has no limit."""


class Hessian(StrEnum):
    """The Hessian of the conjugate gradients."""

    PRINTED = "equation (14), to the letter"
    CORRECT = "the second derivative of F"


class AlgorithmVariant(StrEnum):
    """The account of the algorithm that the search follows; the module says how they differ."""

    PAPER = "Algorithms 1–3 as the paper states them"
    CODE = "the program its authors published"


class SoftMaxStatus(StrEnum):
    """The reason why SM-II ended. None of these says how far from optimal the result is."""

    CONVERGED = "the paper's stopping rule was met; it certifies nothing"
    ITERATIONS = "stopped at the iteration limit"
    TIME = "stopped at the time limit"
    STALLED = "no step along the last direction lowers the objective enough"


class Factors(NamedTuple):
    """The factors of W = L B.

    basis: B, (k, d).
    lifts: L, (m, k).
    """

    basis: Floats
    lifts: Floats


class Bases(NamedTuple):
    """Factorisations of one workload, each with its B and L.

    identity: B = I.
    upper: B = U, the upper triangle of ones, the paper's other choice (section 7).
    row_space: B = Vᵣᵀ, an orthonormal basis of the row space of W, from its SVD.
    """

    identity: Factors
    upper: Factors
    row_space: Factors


def bases(workload: ArrayLike) -> Bases:
    """Write W as L B in the two ways of the paper, and by its row space.

    Args:
        workload: W, shape (m, d).

    Returns:
        L = W; L = W U⁻¹, exact for integers: differences of neighbouring columns; L = W Vᵣ with B = Vᵣᵀ. If W has rank
        r < d, only the last has independent rows spanning those of W, as Definition 3 requires. SM-II runs on the
        others all the same (section 7.8 does): Σ grows without limit in directions without queries.

    Raises:
        WorkloadError: The workload is not a matrix of finite numbers, or all zero.

    Source: sections 3.1 and 7.
    """
    w = np.asarray(workload, dtype=np.float64)
    if w.ndim != 2 or not w.size or not np.isfinite(w).all() or not w.any():
        raise WorkloadError(
            "soft-max-workload",
            f"The workload has the shape {w.shape}, is 0 everywhere, or has a number that is not finite.",
            "",
            "Give a matrix of finite numbers that are not all 0.",
            "Nothing was computed.",
        )
    d = w.shape[1]
    _, s, vt = np.linalg.svd(w, full_matrices=False)
    rows = vt[s > s[0] * max(w.shape) * np.finfo(np.float64).eps]
    return Bases(
        identity=Factors(np.eye(d), w),
        upper=Factors(np.triu(np.ones((d, d))), np.diff(w, axis=1, prepend=0.0)),
        row_space=Factors(rows, w @ rows.T),
    )


def cost_squared(basis: Floats, lifts: Floats, variances: Floats, covariance: Floats) -> float:
    """Return Δ² of Σ scaled to meet all targets: max_i b_iᵀΣ⁻¹b_i · max_j v_jΣv_jᵀ/c_j.

    Args:
        basis: B, (k, d).
        lifts: L, (m, k).
        variances: c, (m,).
        covariance: Σ, (k, k), symmetric.

    Raises:
        numpy.linalg.LinAlgError: Σ is not positive definite.

    **Guarantees**
        * The result is equal for all positive multiples of Σ, up to rounding.
        * A change of basis B → MB, L → LM⁻¹, Σ → MΣMᵀ leaves it unchanged, up to rounding (Theorem 4).
        * It is never below the certified bound of the workload, except by rounding.
    """
    root = np.linalg.cholesky(covariance)
    profile = (np.linalg.solve(root, basis) ** 2).sum(axis=0)
    ratios = ((lifts @ root) ** 2).sum(axis=1) / variances
    return float(profile.max() * ratios.max())


def _soft_max(a: Floats, t: float) -> tuple[float, Floats]:
    """Return 1/t log Σ exp(t a) and its gradient, without overflow."""
    # Without this shift, exp(t a) overflows for the large t of the last rounds.
    top = a.max()
    e = np.exp(t * (a - top))
    total = e.sum()
    return float(top + math.log(total) / t), e / total


@final
@dataclass(frozen=True, eq=False)
class ObjectivePoint:
    """The objective (8) at one Σ.

    basis: B, (k, d).
    scaled: The rows v_j/√c_j, (m, k).
    root: The lower Cholesky factor of Σ.
    t1, t2: The sharpness of the two soft maxima.
    reading: The account that is followed; CODE minimises t₁ and t₂ times the two parts.
    """

    basis: Floats
    scaled: Floats
    root: Floats
    t1: float
    t2: float
    reading: AlgorithmVariant = AlgorithmVariant.PAPER

    @classmethod
    def start(
        cls, basis: Floats, scaled: Floats, covariance: Floats, reading: AlgorithmVariant
    ) -> ObjectivePoint | None:
        """Return the objective at Σ for t₁ = t₂ = 1; None if `at_covariance` returns None."""
        eye = np.eye(len(basis))
        return cls(basis, scaled, eye, 1.0, 1.0, reading).at_covariance(covariance)

    def at_covariance(self, covariance: Floats) -> ObjectivePoint | None:
        """Return this objective at Σ; None if Σ is not positive definite, or too near to singular to be evaluated."""
        try:
            root = np.asarray(np.linalg.cholesky(covariance), dtype=np.float64)
        except np.linalg.LinAlgError:
            return None
        point = replace(self, root=root)
        # A factorisation can succeed for a matrix whose inverse overflows.
        return point if math.isfinite(point.value) else None

    def sharper(self, factor: float) -> ObjectivePoint:
        """Return the objective at this Σ with larger t₁ and t₂."""
        t1 = self.t1 * factor
        return replace(self, t1=t1, t2=(self.t2 if self.reading is AlgorithmVariant.PAPER else t1) * factor)

    @property
    def _factors(self) -> tuple[float, float]:
        """The factors of the two soft maxima."""
        return (1.0, 1.0) if self.reading is AlgorithmVariant.PAPER else (self.t1, self.t2)

    @cached_property
    def profile(self) -> Floats:
        """g_i = b_iᵀΣ⁻¹b_i, (d,)."""
        half = sl.solve_triangular(self.root, self.basis, lower=True, check_finite=False)
        return np.asarray((half**2).sum(axis=0))

    @cached_property
    def ratios(self) -> Floats:
        """h_j = v_jΣv_jᵀ/c_j, (m,)."""
        return np.asarray(((self.scaled @ self.root) ** 2).sum(axis=1))

    @cached_property
    def _maxima(self) -> tuple[float, Floats, Floats]:
        profile_max, w = _soft_max(self.profile, self.t1)
        ratio_max, u = _soft_max(self.ratios, self.t2)
        f1, f2 = self._factors
        return f1 * profile_max + f2 * ratio_max, w, u

    @property
    def value(self) -> float:
        """F(Σ), equation (8); in CODE with its two factors."""
        return self._maxima[0]

    @property
    def cost_squared(self) -> float:
        """Δ² of Σ once scaled to meet all targets."""
        return float(self.profile.max() * self.ratios.max())

    @cached_property
    def _inverse(self) -> Floats:
        return np.asarray(sl.cho_solve((self.root, True), np.eye(len(self.root)), check_finite=False))

    @cached_property
    def _columns(self) -> Floats:
        """The columns Σ⁻¹b_i, (k, d)."""
        return np.asarray(sl.cho_solve((self.root, True), self.basis, check_finite=False))

    @cached_property
    def _parts(self) -> tuple[Floats, Floats]:
        """A = Σ w_i ∇g_i with ∇g_i = −Σ⁻¹b_i b_iᵀΣ⁻¹ (9) and H = Σ u_j ∇h_j with ∇h_j = v_jᵀv_j/c_j (11)."""
        _, w, u = self._maxima
        return -(self._columns * w) @ self._columns.T, (self.scaled.T * u) @ self.scaled

    @property
    def gradient(self) -> Floats:
        """∇F(Σ) as a symmetric matrix (k, k), equation (13)."""
        (a, h), (f1, f2) = self._parts, self._factors
        return f1 * a + f2 * h

    def hessian_times(self, p: Floats, hessian: Hessian) -> Floats:
        """Apply ∇²F(Σ) to a symmetric P (k, k), without forming it (HessTimesVec), by (A ⊗ B) vec(C) = vec(B C Aᵀ).

        Args:
            p: P, (k, k), symmetric.
            hessian: The true second derivative, or equation (14) as printed; the module says how they differ.
        """
        _, w, u = self._maxima
        (a, h), (f1, f2) = self._parts, self._factors
        half = self._inverse @ p @ a
        # Σ w_i ∇²g_i[P], equation (10).
        bend = -(half + half.T)
        curvature = (self._columns * (w * (self._columns * (p @ self._columns)).sum(axis=0))) @ self._columns.T
        numbers = (self.scaled.T * (u * ((self.scaled @ p) * self.scaled).sum(axis=1))) @ self.scaled
        if hessian is Hessian.PRINTED:
            cells, queries = self.t1 * (bend + curvature - a @ p @ a), self.t2 * (numbers - h @ p @ h)
        else:
            cells = bend + self.t1 * (curvature - np.vdot(a, p) * a)
            queries = self.t2 * (numbers - np.vdot(h, p) * h)
        return np.asarray(f1 * cells + f2 * queries)


def direction(point: ObjectivePoint, hessian: Hessian) -> Floats:
    """Return the direction of Algorithm 2: at most MAXCG steps of conjugate gradients on (15), (k, k).

    Nothing protects the steps from negative curvature, which equation (14) can have. The function only avoids a
    division by 0.
    """
    r = -point.gradient
    s = np.zeros_like(r)
    p, old = r, float(np.vdot(r, r))
    for _ in range(MAXCG):
        hp = point.hessian_times(p, hessian)
        curvature = float(np.vdot(p, hp))
        # The printed Hessian can be indefinite; the paper guards against nothing else here.
        if curvature == 0:
            break
        a = old / curvature
        s, r = s + a * p, r - a * hp
        new = float(np.vdot(r, r))
        if new <= TOL2:
            break
        p, old = r + new / old * p, new
    return s


def _line_search(
    point: ObjectivePoint, covariance: Floats, s: Floats, delta: float
) -> tuple[Floats, ObjectivePoint] | None:
    """Return by Algorithm 3 the first Σ + βʲs that is positive definite and lowers F enough, and the objective there.

    None means that rounding hides the change, or that no step was accepted within MAXLS halvings. `delta` is
    δ = ⟨s, ∇F⟩. F is convex, so along a direction of ascent, δ > 0, no step meets its line 6. As printed, the search
    then has no end.
    """
    alpha = 1.0
    for _ in range(MAXLS):
        new = covariance + alpha * s
        candidate = point.at_covariance(new)
        if candidate is not None and candidate.value <= point.value + alpha * DECREASE * delta:
            # Equal values mean that the step is lost in rounding.
            return (new, candidate) if candidate.value < point.value else None
        alpha *= SHRINK
    return None


@final
@dataclass(frozen=True, eq=False)
class SoftMaxSolution:
    """The result of SM-II.

    covariance: Σ, (k, k), scaled so that the worst target is met exactly.
    cost_squared: Its Δ², recomputed from Σ alone.
    ending: The reason why it stopped.
    iterations: The iterations of Algorithm 1, those that only raise t included.
    sharpness: t₁ at the end.
    history: (n, 2), seconds since the start and Δ² of the scaled Σ, at the start and after every change of Σ.
    """

    covariance: Floats
    cost_squared: float
    ending: SoftMaxStatus
    iterations: int
    sharpness: float
    history: Floats


def solve(
    basis: ArrayLike,
    lifts: ArrayLike,
    variances: ArrayLike,
    *,
    hessian: Hessian = Hessian.PRINTED,
    reading: AlgorithmVariant = AlgorithmVariant.PAPER,
    start: ArrayLike | None = None,
    max_iterations: int = MAXITER,
    max_seconds: float | None = None,
    newton_tolerance: float = NTTOL,
    tolerance: float = TOL,
    factor: float = MU,
    progress: Callable[[int, float], None] | None = None,
) -> SoftMaxSolution:
    """Minimise the privacy cost of W = L B under variance targets, by soft maxima: SM-II (Algorithm 1).

    Args:
        basis: B, shape (k, d), finite.
        lifts: L, shape (m, k), finite, no zero row.
        variances: c, one number or shape (m,), positive.
        hessian: The Hessian of the conjugate gradients: equation (14) as printed, or the true second derivative.
        reading: The paper's account of the algorithm, or that of its authors' program.
        start: Σ₀, shape (k, k), symmetric positive definite. Default: a multiple of the identity, by the reading.
        max_iterations: MAXITER.
        max_seconds: The time limit in seconds, checked before every iteration.
        newton_tolerance: NTTOL; t₁ and t₂ are raised when |⟨s,∇F⟩| is below it.
        tolerance: TOL; the search ends when moreover (d + m)/t₁ is below it.
        factor: MU, finite and above 1.
        progress: The function called after every step with the iteration and Δ² of the scaled Σ.

    Returns:
        The last Σ, as the paper does, scaled to meet every target.

    Raises:
        WorkloadError: Shapes disagree, an entry is not finite, a query or the basis is zero, or a target is not
            positive. Or the start is not a covariance, or the factor is not above 1.

    **Guarantees**
        * Every v_jΣv_jᵀ ≤ c_j up to rounding, with equality for some j, for any ending.
        * `cost_squared` is recomputed from that Σ and reached by it. There is no lower bound.
        * The ending is CONVERGED exactly if the paper's stopping rule was met.

    Source: Algorithms 1–3, equations (8)–(15), section 6.3.
    """
    begun = time.perf_counter()
    b, v, c = _checked(basis, lifts, variances, factor)
    scaled = v / np.sqrt(c)[:, None]
    sigma = _start(start, scaled, reading)
    point = ObjectivePoint.start(b, scaled, sigma, reading)
    if point is None:
        raise WorkloadError(
            "start-not-positive-definite",
            "The start is not positive definite, or too near to a singular matrix.",
            "",
            "Give another start, or leave start out.",
            "Nothing was solved.",
        )
    history = [(time.perf_counter() - begun, point.cost_squared)]
    ending, iteration = SoftMaxStatus.ITERATIONS, 0
    while iteration < max_iterations:
        if max_seconds is not None and time.perf_counter() - begun >= max_seconds:
            ending = SoftMaxStatus.TIME
            break
        iteration += 1
        s = direction(point, hessian)
        delta = float(np.vdot(s, point.gradient))
        # The published program takes the steepest descent where its direction does not descend; the paper has no such
        # rule.
        if delta >= 0 and reading is AlgorithmVariant.CODE:
            s = -point.gradient
            delta = -float(np.vdot(s, s))
        if abs(delta) < newton_tolerance:
            if (b.shape[1] + len(v)) / point.t1 < tolerance:
                ending = SoftMaxStatus.CONVERGED
                break
            point = point.sharper(factor)
            continue
        step = _line_search(point, sigma, s, delta)
        if step is None:
            ending = SoftMaxStatus.STALLED
            break
        sigma, point = step
        history.append((time.perf_counter() - begun, point.cost_squared))
        if progress is not None:
            progress(iteration, point.cost_squared)
    worst = float((np.einsum("jk,kl,jl->j", v, sigma, v, optimize=True) / c).max())
    # Symmetric exactly, and scaled so that the worst target is met.
    sigma = (sigma + sigma.T) / (2 * worst)
    return SoftMaxSolution(sigma, cost_squared(b, v, c, sigma), ending, iteration, point.t1, np.array(history))


def _checked(basis: ArrayLike, lifts: ArrayLike, variances: ArrayLike, factor: float) -> tuple[Floats, Floats, Floats]:
    """Return B, L and c as arrays that fit together."""
    b, v = np.asarray(basis, dtype=np.float64), np.asarray(lifts, dtype=np.float64)
    if b.ndim != 2 or v.ndim != 2 or not b.size or not v.size or v.shape[1] != len(b):
        raise WorkloadError(
            "basis-and-lifts-shapes",
            f"The basis has the shape {b.shape}, and the lifts have the shape {v.shape}.",
            "",
            "Give a basis (k, d) and lifts (m, k).",
            "Nothing was solved.",
        )
    c = np.asarray(variances, dtype=np.float64)
    if c.shape not in ((), (len(v),)):
        raise WorkloadError(
            "soft-max-target-count",
            f"The targets have the shape {c.shape}.",
            "",
            f"Give one target, or one for each of the {len(v)} queries.",
            "Nothing was solved.",
        )
    if not (np.isfinite(b).all() and np.isfinite(v).all() and np.isfinite(c).all() and (c > 0).all()):
        raise WorkloadError(
            "soft-max-not-finite",
            "The basis, the lifts or the targets have a number that is not finite, or a target that is not positive.",
            "",
            "Give finite numbers, and positive targets.",
            "Nothing was solved.",
        )
    if not (v != 0).any(axis=1).all():
        raise WorkloadError(
            "soft-max-zero-query",
            "A query is 0 everywhere.",
            "Its answer is known without data.",
            "Leave the query out.",
            "Nothing was solved.",
        )
    if not b.any():
        raise WorkloadError(
            "soft-max-zero-basis",
            "The basis is 0 everywhere.",
            "No record needs protection then.",
            "Give a basis of the queries.",
            "Nothing was solved.",
        )
    if not 1 < factor < math.inf:
        raise WorkloadError(
            "soft-max-factor",
            f"The factor for t is {factor}.",
            "",
            "Give a finite number above 1.",
            "Nothing was solved.",
        )
    return b, v, np.broadcast_to(c, len(v)).copy()


def _start(start: ArrayLike | None, scaled: Floats, reading: AlgorithmVariant) -> Floats:
    """Return Σ₀ as a symmetric matrix."""
    k = scaled.shape[1]
    if start is None:
        # min_j c_j/‖v_j‖².
        min_ratio = 1 / float((scaled**2).sum(axis=1).max())
        return (START if reading is AlgorithmVariant.PAPER else k) * min_ratio * np.eye(k)
    sigma = np.array(start, dtype=np.float64)
    if sigma.shape != (k, k) or not np.isfinite(sigma).all() or not np.allclose(sigma, sigma.T):
        raise WorkloadError(
            "start-not-symmetric",
            f"The start has the shape {sigma.shape}, is not symmetric, or has a number that is not finite.",
            "",
            f"Give a symmetric matrix of the shape ({k}, {k}).",
            "Nothing was solved.",
        )
    return (sigma + sigma.T) / 2
