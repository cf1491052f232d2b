"""Priors on the results of a query: the priors for which a mechanism can be optimal, and bounds for any mechanism.

**Symbols.** α = e^−ε, Φ_ij = α^d(i,j), and a prior π, a probability for every result (a row). The paper defines:

| term | definition | meaning |
|---|---|---|
| corner priors | c^i = Φ_i / Σ_k Φ_ik | the rows of Φ, as probabilities |
| ε-regular | π = y Φ for some y ≥ 0 | a mixture of corner priors |
| utility | U = Σ_o max_i π_i P(o given i) | the probability that the best guess is right |
| min-entropy leakage | L = log2(U / max π) | bits |

The paper bounds U by Σ y for ε-regular priors (theorem 1). **This module uses a bound for every prior.**

**Statement.** U ≤ B(π) for every ε-private mechanism, with

    B(π) = max {π·d : Φ d ≤ 1, d ≥ 0} = min {Σ y : y ≥ 0, y Φ ≥ π}.

**Proof.** Let X be ε-private with its outputs read as results, d its diagonal. Then Σ_k Φ_ik d_k ≤ Σ_k X_ik = 1, as
X_ik ≥ α^d(i,k) X_kk. So U = π·d ≤ B(π); and every y ≥ 0 with y Φ ≥ π has π·d ≤ y Φ d ≤ Σ y. ∎ For an ε-regular prior
the y of the paper is feasible, so that B(π) ≤ Σ y, with equality if d = z ≥ 0, Φ z = 1. Both programs have one variable
for a result, not for a pair of them. They are solved on cells of equivalent results if there are any.

**Trust.** The module does not trust a solver. It makes the solver's y feasible and rounds the sum up. It scales the
solver's d until d is feasible, and rounds the value down. So both ends are proven for any output of the solver.

**Corrections of the paper.** Proposition 6, L ≤ log2(Σ y / max π), needs ε-regular priors. Example 3 applies it at
ε = 0.48 … 0.69, at which its prior is not ε-regular (it is from ε = ln 2 on). There a mechanism leaks 1.344970 bits at
ε = 0.5, above the 1.2 of the paper. In theorem 1 equality holds if and only if the slack 1 − Φ diag(XR) is 0 at every
positive y. The paper requires a slack of 0 everywhere, which is wrong for priors on the border of the region.

**Source.** ElSalamouny, Chatzikokolakis, Palamidessi: A differentially private mechanism of optimal utility for a
region of priors, POST 2013, sections 3 and 4.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import final

import numpy as np
import numpy.typing as npt
from scipy import sparse

from fitnoise.errors import PlanError, WorkloadError
from fitnoise.kernel.arrays import Floats, Integers
from fitnoise.kernel.checks import checked_integer
from fitnoise.kernel.designs.graphs import QueryGraph
from fitnoise.kernel.exact_powers import Graph, rational
from fitnoise.mechanisms.finite.exact import ExactSolution, hops, kernel, kernel_error, solve
from fitnoise.mechanisms.finite.partitions import cells
from fitnoise.mechanisms.finite.programs import minimise

SUM_TOLERANCE = 1e-9
"""Allowed difference of the sum of a prior's probabilities from 1."""

NEAREST_LIMIT = 1000
"""Most results for the search for the nearest regular prior."""

_UNIT = 2.0**-53

_SOLVED = 1e-12
"""Relative gap at which the linear systems replace the linear program."""


def checked_prior(n: int, prior: npt.ArrayLike) -> Floats:
    """Return a prior as floats, (n,).

    Raises:
        WorkloadError: The prior is not an array of n numbers. A number is negative or not finite, or they do not sum to
            1 within 1e-9.
    """
    try:
        pi = np.array(prior, dtype=np.float64)
    except (TypeError, ValueError):
        pi = np.zeros(())
    if pi.shape != (n,):
        raise WorkloadError(
            "prior-shape",
            f"The prior has the shape {pi.shape}.",
            f"A prior has one number for each of the {n} results.",
            f"Give {n} numbers.",
            "Nothing was computed.",
        )
    if not np.isfinite(pi).all() or pi.min() < 0:
        raise WorkloadError(
            "prior-not-probabilities",
            "The prior has a probability that is negative or not finite.",
            "",
            "Give probabilities from 0 to 1.",
            "Nothing was computed.",
        )
    if abs(math.fsum(pi) - 1) > SUM_TOLERANCE:
        raise WorkloadError(
            "prior-sum",
            f"The probabilities of the prior have the sum {math.fsum(pi)!r}.",
            "The sum must be 1.",
            "Divide the probabilities by their sum.",
            "Nothing was computed.",
        )
    pi.setflags(write=False)
    return pi


def uniform(graph: Graph) -> Floats:
    """Return the uniform prior, (n,).

    Args:
        graph: A graph of n results.
    """
    return checked_prior(graph.n, np.full(graph.n, 1 / graph.n))


def corner_priors(graph: Graph, epsilon: float | Fraction) -> Floats:
    """Return c^i = Φ_i / Σ_k Φ_ik, the corners of the region of ε-regular priors, in rows, (n, n).

    Raises:
        WorkloadError: ε is out of range.
        PlanError: There are more than DENSE_LIMIT results.

    **Source.** Definition 6 and proposition 4.
    """
    phi = kernel(hops(graph), rational(epsilon))
    corners: Floats = phi / phi.sum(axis=1, keepdims=True)
    return corners


# --- Regular priors ---------------------------------------------------------------------------------------


@final
@dataclass(frozen=True, eq=False)
class Regularity:
    """The coefficients of a prior in the corner priors, which decide if the prior is ε-regular.

    Attributes:
        coefficients: y with y Φ = π, as computed, (n,).
        error: (n,): y is unique and within this of the coefficients; ∞ if Φ might be singular.
    """

    coefficients: Floats
    error: Floats

    @property
    def regular(self) -> bool | None:
        """True or False with proof, for the prior as given in floats; None if rounding leaves it open."""
        return ExactSolution(self.coefficients, self.error).proven

    @property
    def worst(self) -> int:
        """The result with the least coefficient."""
        return int(np.argmin(self.coefficients))


def regularity(graph: Graph, epsilon: float | Fraction, prior: npt.ArrayLike) -> Regularity:
    """Solve y Φ = π, and decide if y ≥ 0.

    Args:
        graph: The graph of the query.
        epsilon: The ε of the mechanisms.
        prior: π, (n,).

    Raises:
        WorkloadError: The prior is not valid, or ε is out of range.
        PlanError: There are more than DENSE_LIMIT results.

    **Guarantees**

    - `regular` is True or False only with proof: no tolerance decides. On the border of the region, where a coefficient
      is 0, and for a singular Φ, it has the value None.

    **Source.** Definition 5. The thresholds 0.80, 0.90 and 0.48 of the paper are those of the test y ≥ −10⁻⁴.
    """
    exact, pi = rational(epsilon), checked_prior(graph.n, prior)
    steps = hops(graph)
    solution = solve(kernel(steps, exact), pi, kernel_error(steps, exact))
    return Regularity(solution.x, solution.error)


@final
@dataclass(frozen=True, eq=False)
class NearestRegular:
    """An ε-regular prior near a given prior.

    Attributes:
        prior: y Φ, (n,).
        coefficients: y ≥ 0.
        distance: ½ Σ |y Φ − π|, the total variation.
    """

    prior: Floats
    coefficients: Floats
    distance: float


def nearest_regular(graph: Graph, epsilon: float | Fraction, prior: npt.ArrayLike) -> NearestRegular:
    """Find the ε-regular prior nearest to π in total variation, by a linear program in 3n variables.

    A mechanism that is optimal for it loses at most twice the distance for π; `hit_bound` gives a much smaller loss.

    Raises:
        WorkloadError: The prior is not valid, or ε is out of range.
        PlanError: There are more than NEAREST_LIMIT results, or the solver failed.

    **Guarantees**

    - The prior is ε-regular, up to the rounding of y Φ: coefficients are at least 0, and it sums to 1.
    - The distance is that of the returned prior. That none is nearer rests on the solver, to about 1e-9.
    """
    exact, pi = rational(epsilon), checked_prior(graph.n, prior)
    phi, n = kernel(hops(graph, NEAREST_LIMIT), exact), graph.n
    cost = np.concatenate([np.zeros(n), np.ones(2 * n)])
    fit = sparse.hstack([sparse.csr_array(phi), sparse.eye_array(n), -sparse.eye_array(n)])
    total_mass = sparse.csr_array(np.concatenate([phi.sum(axis=1), np.zeros(2 * n)])[None, :])
    # The solver may return small negative numbers; the distance below is that of the corrected prior.
    y = np.maximum(minimise(cost, equal=(sparse.vstack([fit, total_mass]), np.append(pi, 1.0))).x[:n], 0)
    y /= (y @ phi).sum()
    nearest: Floats = y @ phi
    return NearestRegular(nearest, y, float(np.abs(nearest - pi).sum() / 2))


@final
@dataclass(frozen=True, eq=False)
class Shortfall:
    """The distance of a mechanism from the bound of theorem 1, and its parts.

    Attributes:
        slack: s = 1 − Φ diag(XR), (n,).
        loss: y·s, which is Σ y − U.
    """

    slack: Floats
    loss: float


def shortfall(
    graph: Graph, epsilon: float | Fraction, coefficients: npt.ArrayLike, diagonal: npt.ArrayLike
) -> Shortfall:
    """Return the distance of a mechanism with a given diagonal from Σ y: exactly y·s (lemma 2).

    Args:
        graph: The graph of the query.
        epsilon: The ε of the mechanisms.
        coefficients: y with y Φ = π, (n,).
        diagonal: The probability of a right answer for every result, remap included, (n,).

    **Guarantees**

    - For y ≥ 0 the loss is 0 if and only if the slack is 0 **at every positive y**. This corrects theorem 1, which
      requires a slack of 0 everywhere.

    Raises:
        WorkloadError: An array is not n numbers, or ε is out of range.
        PlanError: There are more than DENSE_LIMIT results.
    """
    y, d = (np.asarray(v, dtype=np.float64) for v in (coefficients, diagonal))
    if y.shape != (graph.n,) or d.shape != (graph.n,):
        raise WorkloadError(
            "shortfall-lengths",
            f"The coefficients have the shape {y.shape}, and the diagonal has the shape {d.shape}.",
            f"Each needs one number for each of the {graph.n} results.",
            f"Give {graph.n} coefficients and {graph.n} diagonal entries.",
            "Nothing was computed.",
        )
    slack: Floats = 1 - kernel(hops(graph), rational(epsilon)) @ d
    return Shortfall(slack, float(y @ slack))


# --- The bound for every prior ----------------------------------------------------------------------------


@final
@dataclass(frozen=True, eq=False)
class HitBound:
    """Two proven bounds of B(π).

    Attributes:
        upper: No ε-private mechanism, with any remap of its outputs, is right with a larger probability.
        lower: B(π) is at least this.
        coefficients: y ≥ 0 with y Φ ≥ π, the proof of `upper`, (n,).
        diagonal: d ≥ 0 with Φ d ≤ 1, the proof of `lower`, (n,).
    """

    upper: float
    lower: float
    coefficients: Floats
    diagonal: Floats


def hit_bound(graph: Graph, epsilon: float | Fraction, prior: npt.ArrayLike) -> HitBound:
    """Return bounds of B(π) = max {π·d : Φ d ≤ 1, d ≥ 0}: the largest hit rate of the best guess, for any prior.

    Args:
        graph: The graph of the query.
        epsilon: The ε of the mechanisms.
        prior: π, (n,).

    Raises:
        WorkloadError: The prior is not valid, or ε is out of range.
        PlanError: There are more than DENSE_LIMIT results, or the solver failed.

    **Guarantees**

    - Upper and lower are proven, rounding included, for the floats of the prior. They differ by about 1e-9.
    - Up to rounding, the bounds grow with ε, are at most 1, and at least the largest probability of the prior.
    """
    exact, pi = rational(epsilon), checked_prior(graph.n, prior)
    steps = hops(graph)
    phi, loose = kernel(steps, exact), kernel_error(steps, exact)
    small = quotient(graph, phi, pi)
    mass = small.sizes * pi[small.first_results]
    # If both solutions are non-negative, they are optimal, and no linear program is needed.
    try:
        tries = [(np.linalg.solve(small.matrix, np.ones(small.m)), np.linalg.solve(small.matrix.T, mass))]
    except np.linalg.LinAlgError:
        tries = []
    best: HitBound | None = None
    while best is None or best.upper - best.lower > _SOLVED * best.upper:
        last = not tries
        d, y = tries.pop() if tries else _program(small.matrix, mass)
        candidate = _proven(phi, loose, pi, np.asarray(d)[small.cell_of], np.asarray(y / small.sizes)[small.cell_of])
        best = candidate if best is None or candidate.upper - candidate.lower < best.upper - best.lower else best
        if last:
            break
    return best


def _program(matrix: Floats, mass: Floats) -> tuple[Floats, Floats]:
    """Return the d of max mass·d over matrix d ≤ 1, d ≥ 0, and the multipliers ≥ 0 of the rows of the matrix."""
    solution = minimise(-mass, below=(matrix, np.ones(len(mass))))
    return solution.x, solution.below


def _proven(phi: Floats, loose: float, pi: Floats, d: Floats, y: Floats) -> HitBound:
    """Return both bounds of B from any d and y.

    Sums of non-negative terms err by a part of at most (n + 2) units, and Φ by `loose`. Where y does not cover the
    prior, Φ_kk = 1 makes up for the difference, entry by entry, or a factor does, by the smaller cost.
    """
    slack = loose + 4 * (len(pi) + 8) * _UNIT
    d, y = np.maximum(d, 0), np.maximum(y, 0)
    # Made feasible with rounding included: Φ d ≤ 1 is what the proof needs.
    d = d / max(1.0, float((phi @ d).max()) * (1 + slack)) * (1 - 4 * _UNIT)
    covered = y @ phi * (1 - slack)
    added: Floats = y + np.maximum(pi - covered, 0) * (1 + 4 * _UNIT)
    # A factor exists only if y Φ is positive wherever the prior is.
    if covered[pi > 0].min() > 0:
        factor = float(np.max(pi[pi > 0] / covered[pi > 0])) * (1 + 4 * _UNIT)
        added = y * factor if factor * y.sum() < added.sum() else added
    return HitBound(min(1.0, float(added.sum() * (1 + slack))), float(pi @ d * (1 - slack)), added, d)


# --- Leakage ----------------------------------------------------------------------------------------------


def leakage_bound(graph: Graph, epsilon: float | Fraction, prior: npt.ArrayLike) -> float:
    """Return the largest leakage about the result of any ε-private mechanism, in bits: log2(B(π) / max π).

    It holds **for any prior**.

    Raises:
        WorkloadError: The prior is not valid, or ε is out of range.
        PlanError: There are more than DENSE_LIMIT results, or the solver failed.

    **Guarantees**

    - The bound is never below the leakage of an ε-private mechanism. It is proposition 6 if the prior is ε-regular.
    """
    pi = checked_prior(graph.n, prior)
    # Rounded up, past the rounding of the logarithm.
    return math.nextafter(math.log2(hit_bound(graph, epsilon, pi).upper / pi.max()), math.inf) + 2.0**-50


def regular_leakage_bound(graph: Graph, epsilon: float | Fraction, prior: npt.ArrayLike) -> float:
    """Return log2(Σ y / max π), y Φ = π: proposition 6 of the paper, for ε-regular priors only.

    Raises:
        PlanError: The prior is not proven to be ε-regular: the formula could be too small. Use `leakage_bound`. It is
            also raised for more than DENSE_LIMIT results.
        WorkloadError: The prior is not valid, or ε is out of range.
    """
    regular, pi = regularity(graph, epsilon, prior), checked_prior(graph.n, prior)
    if not regular.regular:
        status = "is not" if regular.regular is False else "is not known to be"
        raise PlanError(
            "prior-not-regular",
            f"This prior {status} ε-regular; its least coefficient is {regular.coefficients.min():.3g}.",
            "The formula holds for ε-regular priors only.",
            "Use leakage_bound, which holds for all priors.",
            "Nothing was computed.",
        )
    # Rounded up, past the rounding of the logarithm.
    return math.nextafter(math.log2((regular.coefficients + regular.error).sum() / pi.max()), math.inf) + 2.0**-50


def leakage_capacity(graph: Graph, epsilon: float | Fraction) -> float:
    """Return the largest leakage about the result under any prior, in bits: log2(n B(u)), u uniform.

    For any mechanism, leakage is largest for the uniform prior. Corollary 1 of the paper requires u to be ε-regular;
    with B no such condition is needed.

    Raises:
        WorkloadError: ε is out of range.
        PlanError: There are more than DENSE_LIMIT results, or the solver failed.
    """
    return leakage_bound(graph, epsilon, uniform(graph))


def database_leakage_bound(
    people: int, values: int, epsilon: float | Fraction, prior_of_one: npt.ArrayLike | None = None
) -> float:
    """Return the largest leakage about the complete table of any ε-private mechanism, for any query, in bits.

    Without a prior, the bound holds for all priors: u log2(m e^ε / (m − 1 + e^ε)) (theorem 2). Let people be
    independent, each with the prior p. Then it is u log2(B(p) / max p), with B on the complete graph of m values.

    *Proof.* Φ of the tables is the u-fold Kronecker product of that of one person, and so is the prior π. If y ≥ 0 and
    y Φ ≥ p, then the product of u such y has the same property for π, and the sum (Σ y)^u. ∎

    The bound is attained by u times the best mechanism for one person, if that attains B(p).

    Args:
        people: u, an integer of at least 1.
        values: m, an integer of at least 2.
        epsilon: The ε of the mechanisms.
        prior_of_one: p, (m,); None for any prior on tables.

    Raises:
        WorkloadError: People, values, ε or the prior are out of range.
        PlanError: The solver failed.

    **Guarantees**

    - The bound is never below the leakage of an ε-private mechanism, oblivious or not.
    """
    exact = rational(epsilon)
    checked_integer("people", people)
    checked_integer("values", values, 2)
    if prior_of_one is None:
        e = math.exp(exact)
        bits = math.log2(values * e / (values - 1 + e))
    else:
        p = checked_prior(values, prior_of_one)
        phi = np.where(np.eye(values, dtype=np.bool_), 1.0, math.exp(-exact))
        d, y = _program(phi, p)
        # The relative error of the single exponential in Φ.
        bits = math.log2(_proven(phi, 16 * _UNIT, p, d, y).upper / p.max())
    return people * (bits + 2.0**-48)


# --- Cells ----------------------------------------------------------------------------------------------


@final
@dataclass(frozen=True, eq=False)
class SimilarityQuotient:
    """Φ between cells of results that are equivalent for the graph and the prior.

    Attributes:
        cell_of: The cell of every result, (n,).
        first_results: A result of every cell, (m,).
        sizes: The number of results of each cell, (m,).
        matrix: Σ_{k in D} Φ_ik for i in C, (m, m).
    """

    cell_of: Integers
    first_results: Integers
    sizes: Floats
    matrix: Floats

    @property
    def m(self) -> int:
        """The number of cells."""
        return len(self.first_results)


def quotient(graph: Graph, phi: Floats, prior: Floats) -> SimilarityQuotient:
    """Return the cells of a graph and a prior: equivalent results have equal values in some optimal solution.

    With a uniform prior the cells are those of `partitions.cells`. Otherwise results of different probability are in
    different cells. Every result is a cell if all probabilities differ, or if the graph is no QueryGraph.
    """
    same = np.unique(prior, return_inverse=True)[1].ravel()
    if same.max() + 1 == graph.n or not isinstance(graph, QueryGraph):
        cell_of = first_results = np.arange(graph.n)
    else:
        partition = cells(graph, None if not same.any() else same)
        cell_of, first_results = partition.cell_of, partition.first_results
    member = sparse.csr_array((np.ones(graph.n), (np.arange(graph.n), cell_of)), shape=(graph.n, len(first_results)))
    matrix = np.asarray((member.T @ phi[first_results].T).T, dtype=np.float64)
    return SimilarityQuotient(cell_of, first_results, np.bincount(cell_of).astype(np.float64), matrix)


def singleton_cells(phi: Floats) -> SimilarityQuotient:
    """Return the partition with every result as a cell."""
    n = len(phi)
    return SimilarityQuotient(np.arange(n), np.arange(n), np.ones(n), phi)
