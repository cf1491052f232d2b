"""Priors on the results of a query: which a mechanism can be best for, and how well any mechanism can do.

With α = e^−ε, Φ_ij = α^d(i,j) and a prior π, a probability for every result (a row), the paper defines

    corner priors      c^i = Φ_i / Σ_k Φ_ik                        the rows of Φ, as probabilities
    ε-regular          π = y Φ for some y ≥ 0                      a mixture of corner priors
    utility            U = Σ_o max_i π_i P(o | i)                  the probability of the best guess being right
    min-entropy leakage  L = log2(U / max π)                       bits

and bounds U by Σ y for ε-regular priors (theorem 1). **What is used here is a bound for every prior**:

    B(π) = max {π·d : Φ d ≤ 1, d ≥ 0} = min {Σ y : y ≥ 0, y Φ ≥ π}.

*Proof.* Let X be ε-private with its outputs read as results, d its diagonal. Then Σ_k Φ_ik d_k ≤ Σ_k X_ik = 1, as
X_ik ≥ α^d(i,k) X_kk. So U = π·d ≤ B(π); and every y ≥ 0 with y Φ ≥ π has π·d ≤ y Φ d ≤ Σ y. ∎ For an ε-regular prior
the y of the paper is feasible, so that B(π) ≤ Σ y, with equality where d = z ≥ 0, Φ z = 1. Both programs have one
variable for a result, not for a pair of them, and are solved on cells of alike results where there are such.

A solver is never believed. Its y is made feasible, and the sum rounded up; its d is scaled until it is feasible, and
the value rounded down. So both ends are proven, whatever the solver says.

**Where this departs from the paper.** Proposition 6, L ≤ log2(Σ y / max π), needs ε-regular priors; example 3 applies
it at ε = 0.48 … 0.69, where its prior is not ε-regular (it is from ε = ln 2 on). There a mechanism leaks 1.344970 bits
at ε = 0.5, above the 1.2 of the paper. In theorem 1 equality holds iff the slack 1 − Φ diag(XR) is 0 wherever y is
positive: iff it is 0 everywhere is said, and is wrong for priors on the border of the region.

Source: ElSalamouny, Chatzikokolakis, Palamidessi: A differentially private mechanism of optimal utility for a region of
priors, POST 2013, sections 3 and 4.
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
from fitnoise.kernel.checks import checked_whole
from fitnoise.kernel.designs.graphs import QueryGraph
from fitnoise.kernel.exact import Graph, rational
from fitnoise.mechanisms.finite.cells import cells
from fitnoise.mechanisms.finite.exact import Solution, hops, kernel, kernel_error, solve
from fitnoise.mechanisms.finite.programs import minimise

SUM_TOLERANCE = 1e-9
"""By how much the probabilities of a prior may miss 1, in sum."""

NEAREST_LIMIT = 1000
"""Most results for which the nearest regular prior is sought."""

_UNIT = 2.0**-53

_SOLVED = 1e-12
"""Gap, relative, at which the linear systems are as good as the linear program."""


def checked_prior(n: int, prior: npt.ArrayLike) -> Floats:
    """A prior as floats, (n,).

    Raises:
        WorkloadError: it is no array of n numbers, one is negative or not finite, or they do not sum to 1 within 1e-9.
    """
    try:
        own = np.array(prior, dtype=np.float64)
    except (TypeError, ValueError):
        own = np.zeros(())
    if own.shape != (n,):
        raise WorkloadError(
            "prior-shape",
            f"The prior has the shape {own.shape}.",
            f"A prior has one number for each of the {n} results.",
            f"Give {n} numbers.",
            "Nothing was computed.",
        )
    if not np.isfinite(own).all() or own.min() < 0:
        raise WorkloadError(
            "prior-not-probabilities",
            "The prior has a probability that is negative or not finite.",
            "",
            "Give probabilities from 0 to 1.",
            "Nothing was computed.",
        )
    if abs(math.fsum(own) - 1) > SUM_TOLERANCE:
        raise WorkloadError(
            "prior-sum",
            f"The probabilities of the prior have the sum {math.fsum(own)!r}.",
            "The sum must be 1.",
            "Divide the probabilities by their sum.",
            "Nothing was computed.",
        )
    own.setflags(write=False)
    return own


def uniform(graph: Graph) -> Floats:
    """Every result equally likely, (n,).

    Args:
        graph: of n results.
    """
    return checked_prior(graph.n, np.full(graph.n, 1 / graph.n))


def corner_priors(graph: Graph, epsilon: float | Fraction) -> Floats:
    """c^i = Φ_i / Σ_k Φ_ik, the corners of the region of ε-regular priors, in rows, (n, n).

    Raises:
        WorkloadError: ε is no number of its range.
        PlanError: more than DENSE_LIMIT results.

    Source: definition 6 and proposition 4.
    """
    phi = kernel(hops(graph), rational(epsilon))
    corners: Floats = phi / phi.sum(axis=1, keepdims=True)
    return corners


# --- Regular priors ---------------------------------------------------------------------------------------


@final
@dataclass(frozen=True, eq=False)
class Regularity:
    """Whether a prior is ε-regular, and its coefficients.

    Attributes:
        coefficients: y with y Φ = π, as computed, (n,).
        error: (n,): y is unique and within this of the coefficients; ∞ where Φ might be singular.
    """

    coefficients: Floats
    error: Floats

    @property
    def regular(self) -> bool | None:
        """True or False where it is proven of the prior as given in floats; None where rounding leaves it open."""
        return Solution(self.coefficients, self.error).proven

    @property
    def worst(self) -> int:
        """The result with the least coefficient."""
        return int(np.argmin(self.coefficients))


def regularity(graph: Graph, epsilon: float | Fraction, prior: npt.ArrayLike) -> Regularity:
    """Solve y Φ = π, and tell whether y ≥ 0.

    Args:
        graph: the graph of the query.
        epsilon: ε.
        prior: π, (n,).

    Raises:
        WorkloadError: the prior is none, or ε is no number of its range.
        PlanError: more than DENSE_LIMIT results.

    **Guarantees**

    - `regular` is True or False only with proof: no tolerance decides. On the border of the region, where a coefficient
      is 0, and where Φ is singular, it is None.

    Source: definition 5. The thresholds 0.80, 0.90 and 0.48 of the paper are those of the test y ≥ −10⁻⁴.
    """
    exact, pi = rational(epsilon), checked_prior(graph.n, prior)
    steps = hops(graph)
    found = solve(kernel(steps, exact), pi, kernel_error(steps, exact))
    return Regularity(found.x, found.error)


@final
@dataclass(frozen=True, eq=False)
class NearestRegular:
    """An ε-regular prior near one that may be none.

    Attributes:
        prior: y Φ, (n,).
        coefficients: y ≥ 0.
        distance: ½ Σ |y Φ − π|, the total variation.
    """

    prior: Floats
    coefficients: Floats
    distance: float


def nearest_regular(graph: Graph, epsilon: float | Fraction, prior: npt.ArrayLike) -> NearestRegular:
    """The ε-regular prior nearest to π in total variation, by a linear program in 2n variables.

    A mechanism that is best for it loses at most twice the distance for π; `hit_bound` says much less.

    Raises:
        WorkloadError: the prior is none, or ε is no number of its range.
        PlanError: more than NEAREST_LIMIT results, or the program was not solved.

    **Guarantees**

    - The prior is ε-regular, up to the rounding of y Φ: coefficients are at least 0, and it sums to 1.
    - The distance is that of the prior returned. That none is nearer is the solver's word, to about 1e-9.
    """
    exact, pi = rational(epsilon), checked_prior(graph.n, prior)
    phi, n = kernel(hops(graph, NEAREST_LIMIT), exact), graph.n
    cost = np.concatenate([np.zeros(n), np.ones(2 * n)])
    fit = sparse.hstack([sparse.csr_array(phi), sparse.eye_array(n), -sparse.eye_array(n)])
    whole = sparse.csr_array(np.concatenate([phi.sum(axis=1), np.zeros(2 * n)])[None, :])
    y = np.maximum(minimise(cost, equal=(sparse.vstack([fit, whole]), np.append(pi, 1.0))).x[:n], 0)
    y /= (y @ phi).sum()
    near: Floats = y @ phi
    return NearestRegular(near, y, float(np.abs(near - pi).sum() / 2))


@final
@dataclass(frozen=True, eq=False)
class Shortfall:
    """How far a mechanism is from the bound of theorem 1, and where.

    Attributes:
        slack: s = 1 − Φ diag(XR), (n,).
        loss: y·s, which is Σ y − U.
    """

    slack: Floats
    loss: float


def shortfall(
    graph: Graph, epsilon: float | Fraction, coefficients: npt.ArrayLike, diagonal: npt.ArrayLike
) -> Shortfall:
    """What a mechanism with a given diagonal misses of Σ y: exactly y·s (lemma 2).

    Args:
        graph: the graph of the query.
        epsilon: ε.
        coefficients: y with y Φ = π, (n,).
        diagonal: the probability of a right answer for every result, remap included, (n,).

    **Guarantees**

    - For y ≥ 0 the loss is 0 iff the slack is 0 **wherever y is positive** (theorem 1, corrected: the paper asks for a
      slack of 0 everywhere).

    Raises:
        WorkloadError: an array is not n numbers, or ε is no number of its range.
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
    """B(π) between two proven numbers.

    Attributes:
        upper: no ε-private mechanism, however its outputs are read, is right with a larger probability.
        lower: B(π) is at least this.
        coefficients: y ≥ 0 with y Φ ≥ π, the proof of `upper`, (n,).
        diagonal: d ≥ 0 with Φ d ≤ 1, the proof of `lower`, (n,).
    """

    upper: float
    lower: float
    coefficients: Floats
    diagonal: Floats


def hit_bound(graph: Graph, epsilon: float | Fraction, prior: npt.ArrayLike) -> HitBound:
    """B(π) = max {π·d : Φ d ≤ 1, d ≥ 0}: how often the best guess can be right, for any prior.

    Args:
        graph: the graph of the query.
        epsilon: ε.
        prior: π, (n,).

    Raises:
        WorkloadError: the prior is none, or ε is no number of its range.
        PlanError: more than DENSE_LIMIT results, or the program was not solved.

    **Guarantees**

    - Upper and lower are proven, rounding included, for the floats of the prior. About 1e-9 apart.
    - Larger for larger ε; at most 1, and at least the largest probability of the prior, up to rounding.
    """
    exact, pi = rational(epsilon), checked_prior(graph.n, prior)
    steps = hops(graph)
    phi, loose = kernel(steps, exact), kernel_error(steps, exact)
    small = quotient(graph, phi, pi)
    mass = small.sizes * pi[small.first]
    try:  # where both are non-negative these are the answer
        tries = [(np.linalg.solve(small.matrix, np.ones(small.m)), np.linalg.solve(small.matrix.T, mass))]
    except np.linalg.LinAlgError:
        tries = []
    best: HitBound | None = None
    while best is None or best.upper - best.lower > _SOLVED * best.upper:
        last = not tries
        d, y = tries.pop() if tries else _program(small.matrix, mass)
        made = _proven(phi, loose, pi, np.asarray(d)[small.of], np.asarray(y / small.sizes)[small.of])
        best = made if best is None or made.upper - made.lower < best.upper - best.lower else best
        if last:
            break
    return best


def _program(matrix: Floats, mass: Floats) -> tuple[Floats, Floats]:
    """The d of max mass·d over matrix d ≤ 1, d ≥ 0, and the multipliers."""
    found = minimise(-mass, below=(matrix, np.ones(len(mass))))
    return found.x, found.below


def _proven(phi: Floats, loose: float, pi: Floats, d: Floats, y: Floats) -> HitBound:
    """Both ends of B from any d and y.

    Sums of non-negative terms err by a part of at most (n + 2) units, and Φ by `loose`; what y does not cover of the
    prior is made up for by Φ_kk = 1, entry by entry, or by a factor, whichever costs less.
    """
    slack = loose + 4 * (len(pi) + 8) * _UNIT
    d, y = np.maximum(d, 0), np.maximum(y, 0)
    d = d / max(1.0, float((phi @ d).max()) * (1 + slack)) * (1 - 4 * _UNIT)
    covered = y @ phi * (1 - slack)
    added: Floats = y + np.maximum(pi - covered, 0) * (1 + 4 * _UNIT)
    if covered[pi > 0].min() > 0:
        factor = float(np.max(pi[pi > 0] / covered[pi > 0])) * (1 + 4 * _UNIT)
        added = y * factor if factor * y.sum() < added.sum() else added
    return HitBound(min(1.0, float(added.sum() * (1 + slack))), float(pi @ d * (1 - slack)), added, d)


# --- Leakage ----------------------------------------------------------------------------------------------


def leakage_bound(graph: Graph, epsilon: float | Fraction, prior: npt.ArrayLike) -> float:
    """The most bits about the result that any ε-private mechanism leaks: log2(B(π) / max π), **for any prior**.

    Raises:
        As `hit_bound`.

    **Guarantees**

    - Never below the leakage of an ε-private mechanism. Proposition 6 where the prior is ε-regular.
    """
    pi = checked_prior(graph.n, prior)
    return math.nextafter(math.log2(hit_bound(graph, epsilon, pi).upper / pi.max()), math.inf) + 2.0**-50


def regular_leakage_bound(graph: Graph, epsilon: float | Fraction, prior: npt.ArrayLike) -> float:
    """log2(Σ y / max π), y Φ = π: proposition 6 of the paper, for ε-regular priors only.

    Raises:
        PlanError: the prior is not proven to be ε-regular: the formula would claim too little. `leakage_bound` serves.
        WorkloadError: the prior is none, or ε is no number of its range.
    """
    found, pi = regularity(graph, epsilon, prior), checked_prior(graph.n, prior)
    if not found.regular:
        known = "is not" if found.regular is False else "is not known to be"
        raise PlanError(
            "prior-not-regular",
            f"This prior {known} ε-regular; its least coefficient is {found.coefficients.min():.3g}.",
            "The formula holds for ε-regular priors only.",
            "Use leakage_bound, which holds for all priors.",
            "Nothing was computed.",
        )
    return math.log2((found.coefficients + found.error).sum() / pi.max()) + 2.0**-50


def leakage_capacity(graph: Graph, epsilon: float | Fraction) -> float:
    """The most bits about the result under any prior: log2(n B(u)), u uniform.

    Leakage is largest for the uniform prior, of any mechanism. Corollary 1 of the paper, which asks for u to be
    ε-regular; with B no such condition is needed.

    Raises:
        As `hit_bound`.
    """
    return leakage_bound(graph, epsilon, uniform(graph))


def database_leakage_bound(
    people: int, values: int, epsilon: float | Fraction, prior_of_one: npt.ArrayLike | None = None
) -> float:
    """The most bits about the whole table that any ε-private mechanism leaks, about whatever query.

    Without a prior, for all priors: u log2(m e^ε / (m − 1 + e^ε)) (theorem 2). With the prior p of one person, all
    being independent with that prior: u log2(B(p) / max p), B on the complete graph of m values. *Proof.* Φ of the
    tables is the u-fold Kronecker product of that of one person, and so is the prior π. If y ≥ 0 and y Φ ≥ p, then the
    product of u such y has the same property for π, and the sum (Σ y)^u. ∎ The bound is attained: by u times the best
    mechanism for one person wherever that attains B(p).

    Args:
        people: u, a whole number of at least 1.
        values: m, a whole number of at least 2.
        epsilon: ε.
        prior_of_one: p, (m,); None: any prior on tables.

    Raises:
        WorkloadError: people, values, ε or the prior are not as said.

    **Guarantees**

    - Never below the leakage of an ε-private mechanism, oblivious or not.
    """
    exact = rational(epsilon)
    checked_whole("people", people)
    checked_whole("values", values, 2)
    if prior_of_one is None:
        e = math.exp(exact)
        bits = math.log2(values * e / (values - 1 + e))
    else:
        p = checked_prior(values, prior_of_one)
        phi = np.where(np.eye(values, dtype=np.bool_), 1.0, math.exp(-exact))
        d, y = _program(phi, p)
        bits = math.log2(_proven(phi, 16 * _UNIT, p, d, y).upper / p.max())
    return people * (bits + 2.0**-48)


# --- Cells ----------------------------------------------------------------------------------------------


@final
@dataclass(frozen=True, eq=False)
class Quotient:
    """Φ between cells of results that look alike, as to the graph and to the prior.

    Attributes:
        of: the cell of every result, (n,).
        first: a result of every cell, (m,).
        sizes: how many there are, (m,).
        matrix: Σ_{k in D} Φ_ik for i in C, (m, m).
    """

    of: Integers
    first: Integers
    sizes: Floats
    matrix: Floats

    @property
    def m(self) -> int:
        """The number of cells."""
        return len(self.first)


def quotient(graph: Graph, phi: Floats, prior: Floats) -> Quotient:
    """The cells of a graph and a prior: programs that look the same from alike results have alike solutions.

    With a uniform prior all symmetry of the graph serves; otherwise results of different probability are kept apart.
    """
    same = np.unique(prior, return_inverse=True)[1].ravel()
    if same.max() + 1 == graph.n or not isinstance(graph, QueryGraph):
        of = first = np.arange(graph.n)
    else:
        found = cells(graph, None if not same.any() else same)
        of, first = found.of, found.first
    member = sparse.csr_array((np.ones(graph.n), (np.arange(graph.n), of)), shape=(graph.n, len(first)))
    matrix = np.asarray((member.T @ phi[first].T).T, dtype=np.float64)
    return Quotient(of, first, np.bincount(of).astype(np.float64), matrix)


def alone(phi: Floats) -> Quotient:
    """Every result a cell."""
    n = len(phi)
    return Quotient(np.arange(n), np.arange(n), np.ones(n), phi)
