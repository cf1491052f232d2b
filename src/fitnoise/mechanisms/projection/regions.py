"""Projection of noisy answers to the nearest answers of a database of limited size.

**Statement.** The queries are A (m, N), one column a_e for each cell, and y (m,) are noisy answers. A database of at
most n records has answers A x with x ≥ 0 and Σx ≤ n. If n is small relative to the number of queries, most of the noise
leads out of that set. Then the point

    z = A x  with least  ½‖A x − y‖²  over the region

is far closer to the truth than y. It depends on y and on public numbers only, so it is post-processing without privacy
cost.

| region | set of answers |
|---|---|
| AT_MOST | A x with x ≥ 0, Σx ≤ n |
| EXACTLY | A x with x ≥ 0, Σx = n |
| HULL | n times the convex hull of the columns ±a_e, the set of the paper |

EXACTLY lies in AT_MOST, and AT_MOST in HULL. Each is the hull of few atoms: n a_e, 0 or −n a_e.

**Gap.** With c = Aᵀ(A x − y), the gap of x is ⟨c, x⟩ − min ⟨c, s⟩ over all s of the region. The minimum is at an atom.
The gap bounds the error: for z = A x and the nearest answers z* = A x*,

    gap ≥ ⟨c, x − x*⟩ = ⟨z − y, z − z*⟩ = ‖z − z*‖² + ⟨z* − y, z − z*⟩ ≥ ‖z − z*‖².

The first inequality holds as x* is one of the s. The last holds as no step from z* within the region leads closer to y.

**Search.** The active set of Wolfe keeps affinely independent atoms. It adds the atom of least ⟨c, s⟩ and moves to the
nearest point of the plane through all atoms. It drops the atoms whose weights would become negative. It ends after
finitely many steps, with about as many products with Aᵀ as there are atoms. Above :data:`MAX_ACTIVE_ATOMS` atoms, steps
between two atoms at a time (pairwise Frank-Wolfe) follow: each costs less, and there are many more. The gap is
recomputed at the end, from x alone.

**Row space.** With U (m, r) an orthonormal basis of the columns of A, ‖A x − y‖² = ‖UᵀA x − Uᵀy‖² + ‖y − U Uᵀy‖². So
the queries UᵀA (r, N) and answers Uᵀy give the same x and the same gap. The work is less if r is far below m.

**Source.** A. Nikolov, "An improved private mechanism for small databases", ICALP 2015, section 3. P. Wolfe, "Finding
the nearest point in a polytope", 1976. S. Lacoste-Julien and M. Jaggi, "On the global linear convergence of Frank-Wolfe
optimization variants", NeurIPS 2015. The sets of nonnegative x and the entropic projection are this project's.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal, Protocol, cast, final, get_args, runtime_checkable

import numpy as np
import scipy.linalg as sl
import scipy.sparse as sp
import scipy.sparse.linalg as ssl
import scipy.special as ss
from numpy.typing import ArrayLike, NDArray

from fitnoise.algebra import operators as op
from fitnoise.errors import WorkloadError
from fitnoise.kernel.arrays import Floats
from fitnoise.kernel.checks import checked_positive
from fitnoise.kernel.units import Region

Method = Literal["auto", "active-set", "pairwise"]

# The gap bounds a squared distance, so z is within a thousandth of its distance from y.
RELATIVE = 1e-6
"""Default tolerance, as part of the distance ‖A x − y‖²."""

# The distance of a y in the region is 0, and no gap is below a part of it.
ABSOLUTE = 1e-11
"""Least default tolerance, as part of ‖y‖²."""

MAX_ACTIVE_ATOMS = 500
"""Most atoms for the active set."""

# Squares of entries are summed and must stay finite and above 0.
LARGEST, SMALLEST = 1e100, 1e-100
"""Limits of the largest entry, other than 0, of a matrix of queries; products and answers have the upper limit only."""

MIN_PLANE_DISTANCE = 1e-11
"""Least relative distance of an atom from the plane of the others; smaller distances are raised to it."""

NEGLIGIBLE_WEIGHT = 1e-15
"""Weight of an atom, as part of n, that is treated as zero."""

STALL_TOLERANCE = 4 * float(np.finfo(np.float64).eps)
"""Relative decrease of the distance that is treated as zero."""

MAX_STALLED_STEPS = 10
"""Steps, or hundreds of pairwise steps, without progress after which a search gives up."""

REFRESH = 100
"""Pairwise steps between two computations of c from the queries."""

MAX_CACHED_NUMBERS = 2**25
"""Largest number of entries in cached columns of AᵀA, 256 MiB."""

MEMORY = 20
"""Pairs that L-BFGS-B keeps."""

ORTHONORMAL = 1e-8
"""Largest entry of |VᵀV − I| for directions V that pass as orthonormal."""


class ProjectionStatus(StrEnum):
    """The end of a search, as a sentence with the advice to the user."""

    CONVERGED = "the requested gap was reached"
    ITERATIONS = "stopped at the limit of iterations; the point is valid at the gap stated, more may narrow it"
    TIME = "stopped at the time limit; the point is valid at the gap stated, more time may narrow it"
    STALLED = "no further progress in floating point; the point is valid at the gap stated"


@runtime_checkable
class QueryProducts(Protocol):
    """Queries with the products of :class:`fitnoise.algebra.operators.Operator`; a method `column(e)` is optional."""

    @property
    def shape(self) -> tuple[int, int]:
        """(m, N)."""

    def mv(self, x: Floats) -> Floats:
        """Return A x, (N,) → (m,).

        Args:
            x: A histogram, (N,).
        """

    def rmv(self, y: Floats) -> Floats:
        """Return Aᵀ y, (m,) → (N,).

        Args:
            y: A number for each query, (m,).
        """


Queries = ArrayLike | QueryProducts | sp.sparray | sp.spmatrix | ssl.LinearOperator


@final
@dataclass(frozen=True, eq=False)
class ProjectedPoint:
    """A point of the region, with a bound on its distance from the nearest one.

    weights: x, (N,); for AT_MOST and EXACTLY a histogram of nonnegative numbers, for HULL signed, Σ|x| ≤ n.
    answers: z = A x, (m,).
    gap: At least ‖z − z*‖², squared counts.
    distance: ‖z − y‖².
    iterations: Number of steps.
    status: The reason why the search ended.
    """

    weights: Floats
    answers: Floats
    gap: float
    distance: float
    iterations: int
    status: ProjectionStatus


@final
@dataclass(frozen=True, eq=False)
class SplitProjection:
    """Answers with a projected tail only. They are A x for no x, so there is no histogram.

    answers: Π y + z, (m,), Π the projector on the kept directions.
    tail: The projection z of (I − Π) y; its weights apply to the tail only.
    """

    answers: Floats
    tail: ProjectedPoint

    @property
    def gap(self) -> float:
        """Upper bound on the squared distance from the exact answers of this kind: the gap of the tail."""
        return self.tail.gap

    @property
    def distance(self) -> float:
        """‖answers − y‖², which is the distance of the tail."""
        return self.tail.distance


@final
@dataclass(frozen=True, eq=False)
class EntropicProjection:
    """A positive histogram close to y in its answers and close to a reference in entropy (:func:`entropic`).

    weights: x, (N,), positive, Σx = n.
    answers: z = A x, (m,).
    multipliers: ν, (m,), at which the dual value bounds the least objective from below.
    objective: ½‖z − y‖² + λ KL(x ‖ nρ), λ the temperature and ρ the reference.
    gap: Objective less the dual value at ν.
    distance: ‖z − y‖².
    iterations: Evaluations of the dual.
    status: The reason why the search ended.
    """

    weights: Floats
    answers: Floats
    multipliers: Floats
    objective: float
    gap: float
    distance: float
    iterations: int
    status: ProjectionStatus


# --- the arguments -----------------------------------------------------------------------------------------------


@final
class _FloatQueries:
    """The queries, with products that are always float64."""

    def __init__(self, queries: Queries) -> None:
        self.matrix: Floats | None = None
        self.column_of: Callable[[int], Floats] | None = None
        self._mv: Callable[[Floats], Floats]
        self._rmv: Callable[[Floats], Floats]
        source: object = queries
        if sp.issparse(source) or isinstance(source, ssl.LinearOperator):
            linear = ssl.aslinearoperator(cast("Any", source))
            self.shape = linear.shape
            self._mv, self._rmv = linear.matvec, linear.rmatvec
        elif isinstance(source, QueryProducts) and not isinstance(source, op.Dense):
            self.shape = source.shape
            self._mv, self._rmv = source.mv, source.rmv
            self.column_of = getattr(source, "column", None)
        else:
            dense = source if isinstance(source, op.Dense) else op.Dense(np.asarray(source))
            a = dense.matrix.astype(np.float64, copy=False)
            largest = float(np.abs(a).max())
            if largest and not SMALLEST <= largest <= LARGEST:
                raise WorkloadError(
                    "query-size-out-of-range",
                    f"The queries have the size {largest:.1e}, and their squares leave the floating-point range.",
                    "",
                    "Scale the queries and the answers.",
                    "Nothing was computed.",
                )
            self.matrix, self.shape = a, a.shape
            self._mv, self._rmv = a.__matmul__, a.T.__matmul__

    def mv(self, x: Floats) -> Floats:
        """Return A x."""
        return self._checked(self._mv(x), self.shape[0])

    def rmv(self, y: Floats) -> Floats:
        """Return Aᵀ y."""
        return self._checked(self._rmv(y), self.shape[1])

    def column(self, e: int) -> Floats:
        """Return a_e, by a product if there is no faster method."""
        if self.matrix is not None:
            return self.matrix[:, e]
        if self.column_of is not None:
            return self._checked(self.column_of(e), self.shape[0])
        unit = np.zeros(self.shape[1])
        unit[e] = 1.0
        return self.mv(unit)

    @staticmethod
    def _checked(product: Floats, length: int) -> Floats:
        # A copy: an operator may return one buffer for all its products.
        out = np.array(product, dtype=np.float64).reshape(-1)
        if len(out) != length:
            raise WorkloadError(
                "query-product-length",
                f"A product with the queries has {len(out)} numbers.",
                f"It needs {length}.",
                "Correct the shape of the queries or their products.",
                "Nothing was computed.",
            )
        # Written so that NaN is refused, too.
        if not float(np.abs(out).max(initial=0.0)) <= LARGEST:
            raise WorkloadError(
                "query-product-not-finite",
                "A product with the queries is not finite, or its square is not.",
                "",
                "Correct or scale the queries and the answers.",
                "Nothing was computed.",
            )
        return out


def _answers(y: ArrayLike, m: int) -> Floats:
    raw = np.asarray(y)
    if raw.shape != (m,) or raw.dtype.kind not in "biuf":
        raise WorkloadError(
            "answers-shape",
            f"The answers have the shape {raw.shape} and the dtype {raw.dtype}.",
            "",
            f"Give an array of {m} real numbers, one for each query.",
            "Nothing was computed.",
        )
    out = raw.astype(np.float64)
    # Written so that NaN is refused, too.
    bad = np.flatnonzero(~(np.abs(out) <= LARGEST))
    if len(bad):
        raise WorkloadError(
            "answer-not-finite",
            f"Answer {int(bad[0]) + 1} is not finite, or its square is not.",
            "",
            "Give finite answers.",
            "Nothing was computed.",
        )
    return out


@final
class _StopRule:
    """The stopping rule of a search."""

    def __init__(
        self,
        scale: float,
        tolerance: float | None,
        iterations: int,
        seconds: float | None,
        patience: float,
    ) -> None:
        if (
            (tolerance is not None and not 0 <= tolerance < math.inf)
            or iterations < 1
            or (seconds is not None and not seconds > 0)
        ):
            raise WorkloadError(
                "search-limits",
                f"The search has the tolerance {tolerance!r}, {iterations!r} iterations and {seconds!r} seconds.",
                "",
                "Give a tolerance from 0 or None, at least one iteration, and positive seconds or None.",
                "Nothing was computed.",
            )
        self.tolerance, self.floor, self.limit, self.patience = tolerance, ABSOLUTE * scale, iterations, patience
        self.deadline = math.inf if seconds is None else time.monotonic() + seconds
        self.iterations, self.idle = 0, 0
        self.least_gap = self.least_distance = math.inf

    def enough(self, gap: float, distance: float) -> bool:
        """Return True if the gap is as small as requested."""
        return gap <= (max(RELATIVE * distance, self.floor) if self.tolerance is None else self.tolerance)

    def verdict(self, ending: ProjectionStatus, gap: float, distance: float) -> ProjectionStatus:
        """Return the end of the search, corrected by the last gap and distance."""
        if self.enough(gap, distance):
            return ProjectionStatus.CONVERGED
        # A search that ended by its own numbers, and misses the gap after recomputation, lost it by rounding.
        return ProjectionStatus.STALLED if ending is ProjectionStatus.CONVERGED else ending

    def reason_to_stop(self, gap: float, distance: float) -> ProjectionStatus | None:
        """Return the reason to stop, or None if one more step follows."""
        self.idle += 1
        # The gap can fall at an equal distance, so each of the two counts as progress.
        if distance < self.least_distance * (1 - STALL_TOLERANCE) or gap < 0.99 * self.least_gap:
            self.idle = 0
        self.least_gap, self.least_distance = min(gap, self.least_gap), min(distance, self.least_distance)
        if self.enough(gap, distance):
            return ProjectionStatus.CONVERGED
        if self.iterations >= self.limit:
            return ProjectionStatus.ITERATIONS
        # At least one step is taken, however short the time limit.
        if self.iterations and time.monotonic() > self.deadline:
            return ProjectionStatus.TIME
        if self.idle > self.patience:
            return ProjectionStatus.STALLED
        self.iterations += 1
        return None


# --- the atoms of a region ---------------------------------------------------------------------------------------


@final
class _AtomProblem:
    """Atoms 0..N−1 are the columns; N.. are 0 with AT_MOST, the negative columns with HULL. Weights sum to n."""

    def __init__(self, queries: _FloatQueries, y: Floats, size: float, region: Region) -> None:
        self.queries, self.y, self.size, self.region = queries, y, size, region
        self.cells = queries.shape[1]
        self.atoms = self.cells + {Region.EXACTLY: 0, Region.AT_MOST: 1, Region.HULL: self.cells}[region]

    def atom_slopes(self, c: Floats) -> Floats:
        """Return the slope towards every atom, from the slopes c of the cells."""
        if self.region is Region.EXACTLY:
            return c
        return np.concatenate([c, [0.0] if self.region is Region.AT_MOST else -c])

    def image(self, atom: int) -> Floats:
        """Return the atom itself, (m,), for one record."""
        if atom < self.cells:
            return self.queries.column(atom)
        if self.region is Region.AT_MOST:
            return np.zeros(self.queries.shape[0])
        return -self.queries.column(atom - self.cells)

    def start(self) -> int:
        """Return the first atom: with AT_MOST that of the point 0, otherwise that of the largest product with y."""
        return (
            self.cells if self.region is Region.AT_MOST else int(np.argmax(self.atom_slopes(self.queries.rmv(self.y))))
        )

    def histogram(self, weights: Floats) -> Floats:
        """Return x (N,) from the weights of all atoms."""
        if self.region is Region.HULL:
            return np.asarray(weights[: self.cells] - weights[self.cells :])
        return weights[: self.cells].copy()

    def gap(self, x: Floats, c: Floats) -> float:
        """Return ⟨c, x⟩ − min ⟨c, s⟩, as a sum of nonnegative numbers."""
        if self.region is Region.HULL:
            best = float(np.abs(c).max())
            # Sums of nonnegative numbers: the difference of the two products would cancel near the optimum.
            return float((np.abs(x) * best + x * c).sum()) + max(self.size - float(np.abs(x).sum()), 0.0) * best
        # The minimum over the region is at one of its few atoms: n a_e, or 0.
        best = -float(c.min())
        if self.region is Region.EXACTLY:
            return float(x @ (c + best))
        best = max(best, 0.0)
        return float(x @ (c + best)) + max(self.size - float(x.sum()), 0.0) * best

    def result(self, x: Floats, watch: _StopRule, ending: ProjectionStatus) -> ProjectedPoint:
        """Return the projection at weights x. Its answers, gap and distance are recomputed from x alone."""
        answers = self.queries.mv(x)
        residual = answers - self.y
        distance, gap = float(residual @ residual), self.gap(x, self.queries.rmv(residual))
        return ProjectedPoint(x, answers, gap, distance, watch.iterations, watch.verdict(ending, gap, distance))


# --- the active set ----------------------------------------------------------------------------------------------


@final
class _Plane:
    """Affinely independent atoms with their weights, and the plane through the atoms.

    atoms: The indices of the s atoms.
    weights: The weights of the atoms, (s,), of sum n. They are positive; an added atom has weight 0 until the next
    move.
    lifted: The images of the atoms (s, m + 1), each with one more entry, equal for all. The rows are linearly
    independent because the atoms are affinely independent.
    root: R, (s, s), upper triangular, with RᵀR = lifted · liftedᵀ up to rounding.
    """

    def __init__(self, problem: _AtomProblem) -> None:
        self.problem = problem
        start = problem.start()
        image = problem.image(start)
        b, y = problem.queries.rmv(problem.y), problem.y
        length = math.sqrt(float(y @ y))
        # |⟨a_e, y⟩|/‖y‖ is at most the length of the longest column.
        reach = float(np.abs(b).max()) / length if length else 0.0
        # The further entry makes affine independence linear independence; at the length of a column it keeps R well
        # scaled.
        lift = max(math.sqrt(float(image @ image)), reach)
        self.lift = lift if lift > SMALLEST else 1.0
        self.atoms, self.weights = [start], np.array([problem.size])
        self.lifted = np.append(image, self.lift)[None, :]
        self.root = np.sqrt(self.lifted @ self.lifted.T)

    @property
    def residual(self) -> Floats:
        """The residual A x − y."""
        return np.asarray(self.weights @ self.lifted[:, :-1] - self.problem.y)

    def all_weights(self) -> Floats:
        """Return the weights of all atoms of the problem."""
        out = np.zeros(self.problem.atoms)
        out[self.atoms] = self.weights
        return out

    def add(self, atom: int) -> None:
        """Add an atom with weight 0: a column of R by two rounds of the seminormal equations."""
        new = np.append(self.problem.image(atom), self.lift)
        mix = sl.cho_solve((self.root, False), self.lifted @ new, check_finite=False)
        off = new - mix @ self.lifted
        # The second round removes the rounding of the first, which the squared condition of RᵀR magnifies.
        mix += sl.cho_solve((self.root, False), self.lifted @ off, check_finite=False)
        off = new - mix @ self.lifted
        s = len(self.atoms)
        root = np.zeros((s + 1, s + 1))
        root[:s, :s], root[:s, s] = self.root, self.root @ mix
        # An atom in the plane of the others would make R singular.
        root[s, s] = max(math.sqrt(float(off @ off)), MIN_PLANE_DISTANCE * math.sqrt(float(new @ new)))
        self.root, self.lifted = root, np.vstack([self.lifted, new])
        self.atoms.append(atom)
        self.weights = np.append(self.weights, 0.0)

    def drop(self, which: NDArray[np.intp]) -> None:
        """Drop some atoms; rotations make R triangular again."""
        # From the last on, so that the earlier indices stay valid.
        for k in which[::-1]:
            s = len(self.atoms)
            self.root = sl.qr_delete(np.eye(s), self.root, int(k), which="col", check_finite=False)[1][: s - 1]
            del self.atoms[k]
        self.lifted = np.delete(self.lifted, which, axis=0)
        self.weights = np.delete(self.weights, which)

    def move_to_nearest(self) -> None:
        """Move to the nearest point of the plane, in parts: at each weight that reaches 0, drop the atom and repeat."""
        size = self.problem.size
        while True:
            slopes = self.lifted[:, :-1] @ self.residual
            both = np.column_stack([slopes, np.ones_like(slopes)])
            steep, flat = sl.cho_solve((self.root, False), both, check_finite=False).T
            total = float(flat.sum())
            # A rounding error; the search makes no move and reports that it stalled.
            if not total > 0:
                return
            # The weights keep their sum n, so the step has the sum 0.
            step = float(steep.sum()) / total * flat - steep
            target = self.weights + step
            out = np.flatnonzero(target <= NEGLIGIBLE_WEIGHT * size)
            if not len(out) or len(target) == 1:
                self.weights = target * (size / float(target.sum()))
                return
            lengths = self.weights[out] / np.maximum(self.weights[out] - target[out], np.finfo(float).tiny)
            part = min(float(lengths.min()), 1.0)
            self.weights = np.maximum(self.weights + part * step, 0.0)
            # Set to 0 exactly: each repetition drops at least one atom, so the loop ends.
            self.weights[out[np.argmin(lengths)]] = 0.0
            self.drop(np.flatnonzero(self.weights <= NEGLIGIBLE_WEIGHT * size))
            self.weights *= size / float(self.weights.sum())


def _active_set(problem: _AtomProblem, watch: _StopRule, support: float) -> tuple[Floats, ProjectionStatus | None]:
    """Return the weights of all atoms at the least gap, or the last weights and no ending above `support` atoms."""
    plane = _Plane(problem)
    min_gap, best = math.inf, plane.all_weights()
    while True:
        residual = plane.residual
        slopes = problem.atom_slopes(problem.queries.rmv(residual))
        atom = int(np.argmin(slopes))
        # This gap steers the search only; the result recomputes it from x.
        gap = float(plane.weights @ (slopes[plane.atoms] - slopes[atom]))
        if gap < min_gap:
            min_gap, best = gap, plane.all_weights()
        ending = watch.reason_to_stop(gap, float(residual @ residual))
        if ending is not None:
            return best, ending
        # Pairwise steps follow from here: each costs less, and there are many more.
        if len(plane.atoms) > support:
            return plane.all_weights(), None
        if atom not in plane.atoms:
            plane.add(atom)
        plane.move_to_nearest()


# --- pairwise steps ----------------------------------------------------------------------------------------------


@final
class _GramColumns:
    """Columns of AᵀA, with a cache of the last used ones."""

    def __init__(self, problem: _AtomProblem) -> None:
        self.problem, self.cache = problem, dict[int, Floats]()
        self.room = max(MAX_CACHED_NUMBERS // problem.cells, 2)

    def column(self, atom: int) -> Floats:
        """Return ⟨a_e, atom⟩ for all cells e."""
        sign = 1.0 if atom < self.problem.cells else -1.0
        if sign < 0 and self.problem.region is Region.AT_MOST:
            return np.zeros(self.problem.cells)
        # With HULL, atom N + e is −a_e: one column serves both.
        cell = atom % self.problem.cells
        products = self.cache.pop(cell, None)
        if products is None:
            products = self.problem.queries.rmv(self.problem.queries.column(cell))
            # A dictionary keeps the order of insertion, so its first key was used least recently.
            if len(self.cache) >= self.room:
                del self.cache[next(iter(self.cache))]
        self.cache[cell] = products
        return sign * products


def _pairwise(problem: _AtomProblem, watch: _StopRule, weights: Floats) -> tuple[Floats, ProjectionStatus]:
    """Move weight from the worst atom that has weight to the best atom, with exact line search, until the end."""
    gram, queries, due = _GramColumns(problem), problem.queries, 0
    min_gap, best = math.inf, weights.copy()
    c, distance = np.zeros(problem.cells), 0.0
    while True:
        fresh = due <= 0
        if fresh:
            # Rounding in the steps changes the sum; c is computed again, so that its rounding does not add up.
            weights *= problem.size / float(weights.sum())
            residual = queries.mv(problem.histogram(weights)) - problem.y
            c, distance, due = queries.rmv(residual), float(residual @ residual), REFRESH
        slopes = problem.atom_slopes(c)
        atom = int(np.argmin(slopes))
        gap = float(weights @ (slopes - slopes[atom]))
        if fresh:
            if gap < min_gap:
                min_gap, best = gap, weights.copy()
            ending = watch.reason_to_stop(gap, distance)
            if ending is not None:
                return best, ending
        # c and the distance are updated ones: they only decide that a fresh computation is due.
        elif watch.enough(gap, distance) or watch.iterations >= watch.limit or time.monotonic() > watch.deadline:
            due = 0
            continue
        else:
            watch.iterations += 1
        used = np.flatnonzero(weights)
        away = int(used[np.argmax(slopes[used])])
        change = gram.column(atom) - gram.column(away)
        change_slopes = problem.atom_slopes(change)
        # The squared distance of the two atoms.
        bend = float(change_slopes[atom] - change_slopes[away])
        slope = float(slopes[away] - slopes[atom])
        # Compared without a division, as `bend` is 0 for two equal columns.
        is_full_step = slope >= bend * weights[away]
        step = float(weights[away]) if is_full_step else slope / bend
        weights[atom] += step
        weights[away] = 0.0 if is_full_step else weights[away] - step
        c = c + step * change
        distance -= step * (2 * slope - step * bend)
        due -= 1


def project(
    queries: Queries,
    y: ArrayLike,
    size: float,
    region: Region | str = Region.AT_MOST,
    *,
    tolerance: float | None = None,
    method: Method = "auto",
    iterations: int = 100_000,
    seconds: float | None = None,
) -> ProjectedPoint:
    """Find the x of a region whose answers z = A x are nearest to the noisy answers y, to a certified gap.

    Here z* are the exact nearest answers, and a_e is column e of A.

    Args:
        queries: A (m, N): a matrix, sparse or not, an operator, or an object with `shape`, `mv` and `rmv`. The search
            needs products with A and Aᵀ. It stores one column of A for each entry of x other than 0.
        y: The noisy answers, (m,).
        size: n, a public bound on the records, or with EXACTLY their public number.
        region: The set of allowed x.
        tolerance: The gap to reach, in squared counts: ‖z − z*‖² is at most as much. None for 10⁻⁶ of ‖z − y‖², or
            10⁻¹¹ of ‖y‖² if that is more.
        method: "active-set", "pairwise" or "auto". With "auto", pairwise steps follow the active set if it has too many
            atoms or stalls.
        iterations: Most steps. A step of the active set is one product with Aᵀ and one column of A.
        seconds: Time limit; None for no limit. With a limit, the result depends on the machine.

    Returns:
        The projection. If the search stopped early, its status and its gap state this; no exception does.

    Raises:
        WorkloadError: Queries, answers or their products are not finite or do not fit each other. The size is not
            positive and finite, or the region or method is unknown. The tolerance is negative or not finite, or another
            limit is not positive.

    **Guarantees**
        * x ≥ 0 exactly and Σx ≤ n with AT_MOST, x ≥ 0 and Σx = n with EXACTLY, Σ|x| ≤ n with HULL: sums to 10⁻¹² n.
        * gap ≥ ‖z − z*‖² for any status. The gap is computed from x and the queries, up to rounding of some 10⁻¹⁵ of
          (n max_e ‖a_e‖ + ‖y‖)².
        * For answers y₀ of the region, ‖z − y₀‖ ≤ ‖y − y₀‖ + √gap: the error exceeds the noise by at most √gap.
        * The search uses no randomness. Without a time limit, the same input gives the same point with one version of
          NumPy and SciPy.

    **Source.** Section 3 of the paper, where the region is HULL and x is not computed; the module head has the search.
    """
    float_queries = _FloatQueries(queries)
    answers = _answers(y, float_queries.shape[0])
    size = checked_positive("the size of the database", size)
    if region not in list(Region):
        raise WorkloadError(
            "unknown-region",
            f"The region is {region!r}.",
            "",
            f"Give one of {', '.join(Region)}.",
            "Nothing was computed.",
        )
    if method not in get_args(Method):
        raise WorkloadError(
            "unknown-projection-method",
            f"The method is {method!r}.",
            "",
            f"Give one of {', '.join(get_args(Method))}.",
            "Nothing was computed.",
        )
    problem = _AtomProblem(float_queries, answers, size, Region(region))
    watch = _StopRule(float(answers @ answers), tolerance, iterations, seconds, MAX_STALLED_STEPS)
    ending: ProjectionStatus | None = None
    weights = np.zeros(problem.atoms)
    if method == "pairwise":
        weights[problem.start()] = size
    else:
        weights, ending = _active_set(problem, watch, MAX_ACTIVE_ATOMS if method == "auto" else math.inf)
    # Pairwise steps solve no linear systems, so they can go on where the active set stalls.
    if ending is None or (method == "auto" and ending is ProjectionStatus.STALLED):
        watch.idle = 0
        weights, ending = _pairwise(problem, watch, weights)
    return problem.result(problem.histogram(weights), watch, ending)


# --- the paper's split -------------------------------------------------------------------------------------------


@final
class _Tail:
    """The operator (I − V Vᵀ) A."""

    def __init__(self, queries: _FloatQueries, head: Floats) -> None:
        self.queries, self.head, self.shape = queries, head, queries.shape

    def off(self, y: Floats) -> Floats:
        """Return (I − V Vᵀ) y."""
        return np.asarray(y - self.head @ (self.head.T @ y))

    def mv(self, x: Floats) -> Floats:
        return self.off(self.queries.mv(x))

    def rmv(self, y: Floats) -> Floats:
        return self.queries.rmv(self.off(y))

    def column(self, e: int) -> Floats:
        return self.off(self.queries.column(e))


def split_project(
    queries: Queries,
    y: ArrayLike,
    size: float,
    head: ArrayLike,
    region: Region | str = Region.HULL,
    *,
    tolerance: float | None = None,
    method: Method = "auto",
) -> SplitProjection:
    """Keep noisy answers in some directions, and project them in all others: Π y + the nearest to (I − Π) y.

    Args:
        queries: A, (m, N), as in :func:`project`.
        y: The noisy answers, (m,).
        size: n, the number of records, or a bound on it (`region`).
        head: Orthonormal directions V, (m, t), t from 0 on, of Π = V Vᵀ: those of the largest variances of the noise.
        region: The set of allowed x; the tail is sought among (I − Π) A x.
        tolerance: The gap of the tail, as in :func:`project`.
        method: The method, as in :func:`project`.

    Raises:
        WorkloadError: An argument is refused as in :func:`project`, or the head is not orthonormal.

    **Guarantees**
        * Π of the answers is Π y, to rounding. With no head the answers are those of :func:`project` on this region.
        * Feasibility and gap of the tail are those of :func:`project`.

    **Source.** Algorithm 1. The full projection, without a head, obeys the same bound up to a factor of 2 in one term.
    """
    float_queries = _FloatQueries(queries)
    answers = _answers(y, float_queries.shape[0])
    v = np.asarray(head, dtype=np.float64)
    if (
        v.ndim != 2
        or len(v) != len(answers)
        or not np.abs(v.T @ v - np.eye(v.shape[1])).max(initial=0.0) <= ORTHONORMAL
    ):
        raise WorkloadError(
            "head-not-orthonormal",
            f"The head has the shape {v.shape}, or columns that are not orthonormal.",
            f"A head has {len(answers)} rows, one for each query.",
            "Give the leading columns of the basis of a design.",
            "Nothing was computed.",
        )
    tail = _Tail(float_queries, v)
    rest = tail.off(answers)
    projection = project(tail, rest, size, region, tolerance=tolerance, method=method)
    # answers − rest is Π y.
    return SplitProjection(answers - rest + projection.answers, projection)


# --- entropy -----------------------------------------------------------------------------------------------------


def nearest_gap(queries: Queries, y: ArrayLike, weights: Floats, size: float, region: Region = Region.AT_MOST) -> float:
    """Return the gap of any histogram of a region, in squared counts: at least ‖A x − z*‖² for the nearest answers z*.

    Args:
        queries: A, (m, N).
        y: The noisy answers, (m,).
        weights: x, (N,), of the region.
        size: n, the number of records, or a bound on it (`region`).
        region: The region of x.

    Raises:
        WorkloadError: The queries, the answers or the size are refused as in :func:`project`.
    """
    float_queries = _FloatQueries(queries)
    answers = _answers(y, float_queries.shape[0])
    problem = _AtomProblem(float_queries, answers, checked_positive("the size of the database", size), Region(region))
    return problem.gap(weights, float_queries.rmv(float_queries.mv(weights) - answers))


def entropic_gap(queries: Queries, y: ArrayLike, weights: Floats, size: float, temperature: float) -> float:
    """Return a bound on the excess of the objective of any x > 0: its value, less the dual value of y − A x.

    Args:
        queries: A, (m, N).
        y: The noisy answers, (m,).
        weights: x, (N,), of sum n.
        size: n, the sum of x.
        temperature: λ; the reference is the uniform distribution over the cells.

    Raises:
        WorkloadError: The queries, the answers, the size or λ are refused as in :func:`entropic`.
    """
    float_queries = _FloatQueries(queries)
    answers = _answers(y, float_queries.shape[0])
    size = checked_positive("the size of the database", size)
    temperature = checked_positive("a temperature", temperature)
    reference = np.full(float_queries.shape[1], 1 / float_queries.shape[1])
    nu = answers - float_queries.mv(weights)
    value = 0.5 * float(nu @ nu) + temperature * float(ss.rel_entr(weights, size * reference).sum())
    # The logarithm of the sum, as its terms leave floating point for small λ.
    log = float(ss.logsumexp(float_queries.rmv(nu) / temperature + np.log(reference)))
    return value - (float(nu @ answers) - 0.5 * float(nu @ nu) - size * temperature * log)


class _ProjectionDone(Exception):
    """The end of the search."""


@final
class _Dual:
    """D(ν) = ⟨ν, y⟩ − ½‖ν‖² − n λ log Σ_e ρ_e exp(a_eᵀν/λ), and the best ν so far."""

    def __init__(
        self, queries: _FloatQueries, y: Floats, size: float, temperature: float, logs: Floats, watch: _StopRule
    ) -> None:
        self.queries, self.y, self.size, self.temperature, self.logs = queries, y, size, temperature, logs
        self.watch, self.ending = watch, ProjectionStatus.STALLED
        self.gap = math.inf
        self.multipliers = np.zeros_like(y)

    def histogram(self, nu: Floats) -> tuple[Floats, float]:
        """Return x_e = n ρ_e exp(a_eᵀν/λ) / Σ and the logarithm of that sum, or end the search at an overflow."""
        # A line search may try a ν so long that exponents overflow; the search then ends with the best ν so far.
        with np.errstate(over="ignore"):
            exponents = self.logs + self.queries.rmv(nu) / self.temperature
        shift = float(exponents.max())
        if not math.isfinite(shift):
            raise _ProjectionDone
        parts = np.exp(exponents - shift)
        total = float(parts.sum())
        # Every weight is above 0, as the entropy needs; all that is added is far below the rounding of n.
        return np.maximum(parts * (self.size / total), np.finfo(float).tiny), shift + math.log(total)

    def evaluate(self, nu: Floats) -> tuple[float, Floats]:
        """Return −D and its gradient, A x − y + ν; the gap is half the gradient's square."""
        x, log = self.histogram(nu)
        residual = self.queries.mv(x) - self.y
        gradient = residual + nu
        gap = 0.5 * float(gradient @ gradient)
        if gap < self.gap:
            self.gap, self.multipliers = gap, nu.copy()
        ending = self.watch.reason_to_stop(gap, float(residual @ residual))
        if ending is not None:
            self.ending = ending
            raise _ProjectionDone
        return float(nu @ (0.5 * nu - self.y)) + self.size * self.temperature * log, gradient


def entropic(
    queries: Queries,
    y: ArrayLike,
    size: float,
    temperature: float,
    *,
    reference: ArrayLike | None = None,
    tolerance: float | None = None,
    iterations: int = 10_000,
    seconds: float | None = None,
) -> EntropicProjection:
    """Find the x ≥ 0 with Σx = n of least ½‖A x − y‖² + λ KL(x ‖ nρ), with KL(x ‖ q) = Σ_e x_e log(x_e/q_e).

    As λ falls to 0 its answers go to the projection with EXACTLY; as it rises, x goes to nρ.

    **Duality.** For every ν (m,) and every such x,

    * ½‖A x − y‖² ≥ ⟨ν, y − A x⟩ − ½‖ν‖², as a square is not negative;
    * λ KL(x ‖ nρ) ≥ ⟨ν, A x⟩ − n λ log Σ_e ρ_e exp(a_eᵀν/λ), as KL(x ‖ x(ν)) is not negative.

    Here x_e(ν) = n ρ_e exp(a_eᵀν/λ) / Σ_f ρ_f exp(a_fᵀν/λ). The sum of both bounds the objective from below by D(ν),
    the dual value. At x(ν) the second is an equality, so the objective less D(ν) is ½‖A x − y + ν‖². No numbers cancel
    in it.

    Args:
        queries: A, (m, N), as in :func:`project`. The dual has m variables, so give UᵀA and Uᵀy if r is far below m.
        y: The noisy answers, (m,).
        size: n, the public number of records.
        temperature: λ, positive, in squared counts: a doubling of one record's density costs as much as λ log 2.
        reference: ρ, (N,), positive; only the proportions count. None for the uniform distribution.
        tolerance: The gap to reach, in squared counts; None as in :func:`project`.
        iterations: Most evaluations of D, each a product with Aᵀ and one with A.
        seconds: Time limit; None for no limit.

    Raises:
        WorkloadError: An argument is refused as in :func:`project`, or temperature or reference are not positive and
            finite.

    **Guarantees**
        * x > 0, and |Σx − n| ≤ 10⁻¹² n.
        * objective − gap ≤ least objective ≤ objective, up to rounding, for any status.
        * ‖z − z*‖² ≤ 2 gap and KL(x ‖ x*) ≤ gap/λ for the best x* and its answers z*.
        * The search uses no randomness, as in :func:`project`.

    **Source.** This project.
    """
    float_queries = _FloatQueries(queries)
    m, cells = float_queries.shape
    answers = _answers(y, m)
    size = checked_positive("the size of the database", size)
    temperature = checked_positive("a temperature", temperature)
    rho = np.ones(cells) if reference is None else np.asarray(reference, dtype=np.float64)
    if rho.shape != (cells,) or not ((rho > 0) & (rho <= LARGEST)).all():
        raise WorkloadError(
            "reference-not-positive",
            f"The reference has the shape {rho.shape}, or an entry that is not positive and finite.",
            "",
            f"Give a positive finite number for each of the {cells} cells.",
            "Nothing was computed.",
        )
    # First by the largest entry: the sum of large entries could overflow.
    rho = rho / rho.max()
    rho /= rho.sum()
    watch = _StopRule(float(answers @ answers), tolerance, iterations, seconds, math.inf)
    dual = _Dual(float_queries, answers, size, temperature, np.log(rho), watch)
    off = float_queries.mv(size * rho) - answers
    # In units of the first residual, so that the first step of L-BFGS has a useful length.
    unit = math.sqrt(float(off @ off)) or 1.0

    def value(scaled: Floats) -> tuple[float, Floats]:
        height, gradient = dual.evaluate(scaled * unit)
        return height / unit**2, gradient / unit

    # The import takes as long as a small plan.
    import scipy.optimize as so

    with contextlib.suppress(_ProjectionDone):
        so.minimize(
            value,
            np.zeros(m),
            jac=True,
            method="L-BFGS-B",
            # Its own stopping rules are off: `_StopRule` ends the search.
            options={"maxcor": MEMORY, "maxiter": 10**6, "maxfun": 10**6, "ftol": 0.0, "gtol": 0.0},
        )
    # The optimiser's result is not used: all numbers follow from the best ν that was evaluated.
    x, _ = dual.histogram(dual.multipliers)
    z = float_queries.mv(x)
    residual = z - answers
    gradient = residual + dual.multipliers
    distance, gap = float(residual @ residual), 0.5 * float(gradient @ gradient)
    objective = 0.5 * distance + temperature * float(ss.rel_entr(x, size * rho).sum())
    ending = watch.verdict(dual.ending, gap, distance)
    return EntropicProjection(
        weights=x,
        answers=z,
        multipliers=dual.multipliers,
        objective=objective,
        gap=gap,
        distance=distance,
        iterations=watch.iterations,
        status=ending,
    )


# --- small databases ---------------------------------------------------------------------------------------------


def with_absent(rows: Floats) -> Floats:
    """Return R and a column of 0 (r, N + 1): a cell for the records that n allows and that do not exist.

    The entropic estimate has Σx = n. If n is only a bound (AT_MOST), the estimate uses these rows, and the last weight
    is left out. Otherwise it would force n records on a database that has fewer.

    Args:
        rows: R, (r, N), a factor of the queries.
    """
    return np.concatenate([rows, np.zeros((len(rows), 1))], axis=1)


def entropy_weight(rows: Floats, factor: Floats, temperature: float) -> float:
    """Return λ = τ mean_e ‖Fᵀ b_e‖ for noise of covariance F Fᵀ; ‖Fᵀ b_e‖ is its standard deviation along column e.

    Args:
        rows: R, (r, N), columns b_e.
        factor: F, (r, s).
        temperature: τ, the amount of entropy; 0 for the nearest answers.
    """
    return temperature * float(np.sqrt(((factor.T @ rows) ** 2).sum(axis=0)).mean()) if temperature else 0.0


@final
class Estimator:
    """The rule that turns the noisy answers of a small database into answers that one of its size can give.

    Args:
        rows: R, (r, N), the queries in row space.
        size: n, the number of records, or a bound on it (`region`).
        region: The set of allowed x; not HULL for an entropic estimate.
        weight: λ of the entropic estimate; 0 for the nearest answers.
        head: Orthonormal directions (r, k) that stay unchanged. The others are projected on the hull (Algorithm 1), for
            any region and weight. None for no such directions.
    """

    def __init__(
        self, rows: Floats, size: float, region: Region, weight: float = 0.0, head: Floats | None = None
    ) -> None:
        self.rows, self.size, self.region, self.weight, self.head = rows, size, region, weight, head
        self._cells = with_absent(rows) if weight and region is Region.AT_MOST else rows

    def __call__(self, noisy: Floats, tolerance: float | None = None) -> tuple[Floats | None, Floats]:
        """Return the histogram x ≥ 0 (N,), signed on HULL and None with a head, and its answers (r,).

        tolerance: The gap to reach, as in :func:`project` or :func:`entropic`; None for their default.
        """
        if self.head is not None:
            return None, split_project(self.rows, noisy, self.size, self.head, tolerance=tolerance).answers
        if not self.weight:
            nearest = project(self.rows, noisy, self.size, self.region, tolerance=tolerance)
            return nearest.weights, nearest.answers
        projection = entropic(self._cells, noisy, self.size, self.weight, tolerance=tolerance)
        return projection.weights[: self.rows.shape[1]], projection.answers

    def gap(self, noisy: Floats, histogram: Floats) -> float:
        """Return a histogram's gap to the best one, by :func:`nearest_gap` or :func:`entropic_gap`.

        Args:
            noisy: The answers y, (r,).
            histogram: x, (N,), from the region.
        """
        if not self.weight:
            return nearest_gap(self.rows, noisy, histogram, self.size, self.region)
        # The weight of the absent records, which the release leaves out; the entropy needs it above 0.
        absent = [max(self.size - float(histogram.sum()), np.finfo(np.float64).tiny)]
        x = np.append(histogram, absent) if self.region is Region.AT_MOST else histogram
        return entropic_gap(self._cells, noisy, x, self.size, self.weight)
