"""The best mechanism for a prior: by a linear program, approximately by a small one, or by a choice among families.

Two results that are t steps from each other in the graph have the entry e^(−ε t) in Φ, and j ~ i are neighbours. π is
the prior, z solves Φ z = 1, and G_ig is the gain of the guess g for the result i. A mechanism X gives the output g with
probability X_ig.

**Residual column.** Choose d ≥ 0 and keep s = 1 − Φ d private: s_i ≤ e^ε s_j along edges. Then [Φ diag(d) | s] is an
ε-private mechanism, column by column, with one output more than results. Among these, the one of the largest hit rate
is

    max π·d + π_r s_r    over d ≥ 0, s = 1 − Φ d, s_i ≤ e^ε s_j.

The program has n variables, and a solution for every ε, graph and prior: d = 0 is allowed. The last output is read as
the result r, which a search finds. If z ≥ 0 and the prior is ε-regular, d = z is optimal. In other cases the value
comes close to the proven bound `priors.hit_bound`, and both numbers are returned.

**Any gain.** max Σ π_i X_ig G_ig over all private X is a program in n × guesses variables. Multipliers λ ≥ 0 of
X_io ≤ e^ε X_jo prove that no mechanism gains more than

    Σ_i max_o (π_i G_io − Σ_{j ~ i} (λ_ijo − e^ε λ_jio)),

*for every λ ≥ 0*, since the rows of X are probabilities. So the solver's λ, cut at 0, gives a proven bound.

**Source.** The residual column is this project's. The full program is that of Gupte and Sundararajan, Universally
optimal privacy mechanisms for minimax agents, PODS 2010, for a prior.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import final

import numpy as np
import numpy.typing as npt
from scipy import sparse

from fitnoise.errors import PlanError, WorkloadError
from fitnoise.kernel.arrays import Floats, Integers
from fitnoise.kernel.designs.probability_tables import FiniteMechanism
from fitnoise.kernel.exact_powers import DENSE_LIMIT, Graph, rational
from fitnoise.mechanisms.finite import families
from fitnoise.mechanisms.finite.accuracy import accuracy, checked_gain, points
from fitnoise.mechanisms.finite.exact import hops, kernel
from fitnoise.mechanisms.finite.families import columns_and_rest, from_probabilities
from fitnoise.mechanisms.finite.priors import SimilarityQuotient, checked_prior, hit_bound, quotient, singleton_cells
from fitnoise.mechanisms.finite.programs import minimise
from fitnoise.messages import Message, Value, ValueKind, english
from fitnoise.reporting import ReportColumn, ReportTable, aligned

PROGRAM_LIMIT = 100
"""Most results, and most guesses, for the program in all pairs."""

CELLS_LIMIT = 1000
"""Most cells of equivalent results for the residual-column program."""

SINGLE_CELLS_LIMIT = 64
"""Most results without a partition into cells: there the last output can be read as any single result."""

_ROUNDS = 4

_SAME = 1e-9
"""Relative difference of gains below which the choice of a family treats them as equal."""

_UNIT = 2.0**-53


@final
@dataclass(frozen=True, eq=False)
class Optimum:
    """A mechanism, its expected gain under its prior, and the bound for all mechanisms.

    Attributes:
        mechanism: The mechanism.
        value: Its expected gain with the best remap.
        bound: Proven: no ε-private mechanism that uses only the true answer has a larger expected gain.
    """

    mechanism: FiniteMechanism
    value: float
    bound: float

    @property
    def gap(self) -> float:
        """Largest possible distance of the mechanism from the optimum: the bound less the value, at least 0."""
        return max(0.0, self.bound - self.value)


# --- Residual column --------------------------------------------------------------------------------------


def residual_column(graph: Graph, epsilon: float | Fraction, prior: npt.ArrayLike) -> Optimum:
    """Return the mechanism [Φ diag(d) | s] of the largest hit rate under a prior.

    Args:
        graph: The graph of the query.
        epsilon: The ε of the mechanism.
        prior: π, (n,).

    Returns:
        The mechanism, with one output for every result and one more, and the bound B(π).

    Raises:
        WorkloadError: The prior is not valid, or ε is out of range.
        PlanError: There are more than CELLS_LIMIT cells of equivalent results (as many as results, if the prior
            distinguishes all). It is also raised for more than DENSE_LIMIT results, if rounding costs too much, or if
            the solver failed.

    **Guarantees**

    - The mechanism is ε-private, exactly, for every ε; the proof uses no float.
    - The bound is proven. That the gap is minimal with one more column rests on the solver. Above SINGLE_CELLS_LIMIT
      results it also rests on the search for the reading r of the last output.
    """
    exact, pi = rational(epsilon), checked_prior(graph.n, prior)
    steps = hops(graph)
    phi = kernel(steps, exact)
    small = quotient(graph, phi, pi) if graph.n > SINGLE_CELLS_LIMIT else singleton_cells(phi)
    if small.m > CELLS_LIMIT:
        raise PlanError(
            "too-many-different-results",
            f"The question has {small.m} results that are different for the graph or the prior.",
            f"The program is solved for at most {CELLS_LIMIT}.",
            "Choose a prior with more symmetry, or a mechanism with a formula.",
            "No mechanism was made.",
        )
    bound = hit_bound(graph, exact, pi)
    rows = _CellProgram(small.matrix, np.asarray(graph.edges), small.cell_of, math.exp(exact))
    d, read = _largest(rows, small, pi)
    mechanism = columns_and_rest(
        graph, exact, steps, d[small.cell_of], "residual column", rest_read_as=int(small.first_results[read])
    )
    return Optimum(mechanism, accuracy(mechanism).expected_gain(pi), bound.upper)


def _largest(rows: _CellProgram, small: SimilarityQuotient, pi: Floats) -> tuple[Floats, int]:
    """Return the d of the program with the largest value, and the cell r as which the last output is read.

    The first program has no r; in its solution, r is the likeliest cell for the last output. With at most
    SINGLE_CELLS_LIMIT results, further programs try every r. With more, each takes the r of the program before, as long
    as the value grows, up to `_ROUNDS` programs.
    """
    single = pi[small.first_results]
    mass = small.sizes * single
    # The value counts the last output as its likeliest cell, for any r of the program.
    best, best_d, read = -math.inf, np.zeros(small.m), 0
    waiting: list[int | None] = [None, *range(small.m)] if len(pi) <= SINGLE_CELLS_LIMIT else [None]
    follow = len(pi) > SINGLE_CELLS_LIMIT
    rounds = 0
    while waiting:
        d, s = rows.best(mass, waiting.pop(0), single)
        likely = int(np.argmax(single * s))
        value = float(mass @ d + single[likely] * s[likely])
        rounds += 1
        # A difference within the tolerance of the solver would only change the result with its version.
        if value > best + 1e-12:
            best, best_d, read = value, d, likely
            waiting += [likely] if follow and rounds < _ROUNDS else []
    return best_d, read


@final
class _CellProgram:
    """The program in cells. Edges enter if they are violated, and stay: only few ever bind."""

    def __init__(self, matrix: Floats, edges: Integers, cell_of: Integers, growth: float) -> None:
        self.matrix, self.growth = matrix, growth
        ends = cell_of[edges.reshape(-1, 2)]
        both = np.concatenate([ends, ends[:, ::-1]])
        self.pairs: Integers = np.unique(both[both[:, 0] != both[:, 1]], axis=0).reshape(-1, 2)
        self.is_used = np.zeros(len(self.pairs), dtype=np.bool_)

    def best(self, mass: Floats, rest_of: int | None, single: Floats) -> tuple[Floats, Floats]:
        """Return the d and s of the largest mass·d + single_r s_r, r = `rest_of`."""
        m = len(mass)
        cost = -np.concatenate([mass, np.zeros(m)])
        if rest_of is not None:
            cost[m + rest_of] = -single[rest_of]
        rows = sparse.hstack([sparse.csr_array(self.matrix), sparse.eye_array(m)], format="csc")
        while True:
            used = self.pairs[self.is_used]
            count = np.arange(len(used))
            ones = np.ones(len(used))
            below = sparse.csc_array(
                (np.r_[ones, -self.growth * ones], (np.r_[count, count], m + np.r_[used[:, 0], used[:, 1]])),
                shape=(len(used), 2 * m),
            )
            x = minimise(cost, (below, np.zeros(len(used))), (rows, np.ones(m))).x
            d = np.maximum(x[:m], 0)
            # Recomputed from d, as the solver meets its equations only up to a tolerance.
            s = 1 - self.matrix @ d
            excess = s[self.pairs[:, 0]] - self.growth * s[self.pairs[:, 1]]
            # Edges in the program may be violated by the tolerance of the solver, and are not added again.
            new = (excess > 1e-11) & ~self.is_used
            if not new.any():
                return d, s
            self.is_used |= new


# --- Any gain ---------------------------------------------------------------------------------------------


def optimal(
    graph: Graph, epsilon: float | Fraction, prior: npt.ArrayLike, gain: npt.ArrayLike | None = None
) -> Optimum:
    """Return the mechanism with the largest expected gain under a prior, by a program in n × guesses variables.

    Args:
        graph: The graph of the query.
        epsilon: The ε of the mechanism.
        prior: π, (n,).
        gain: g, (n, n): the gain of each guess (column) for each result (row); losses are negative gains. None for 1 if
            the guess is right, and 0 otherwise.

    Returns:
        The mechanism, whose output k is the guess k, and a bound.

    Raises:
        WorkloadError: The prior or the gain is not valid, or ε is out of range.
        PlanError: There are more than PROGRAM_LIMIT results, rounding costs too much, or the solver failed.

    **Guarantees**

    - The mechanism is ε-private, exactly. The bound is proven from the solver's multipliers, for any multipliers.
    - The program takes 2 seconds for 49 results and about 40 at the limit, on one core.
    """
    exact, pi = rational(epsilon), checked_prior(graph.n, prior)
    n = graph.n
    worth = np.eye(n) if gain is None else checked_gain(n, gain)
    if worth.shape != (n, n):
        raise gain_not_square(n, worth.shape[1])
    if n > PROGRAM_LIMIT:
        raise PlanError(
            "too-many-results-for-program",
            f"The question has {n} results.",
            f"The program with a variable for every pair of results is solved for at most {PROGRAM_LIMIT}.",
            "Use residual_column, which comes close for hit rates.",
            "No mechanism was made.",
        )
    forth = np.asarray(graph.edges).reshape(-1, 2)
    arcs = np.concatenate([forth, forth[:, ::-1]])
    growth, count = math.exp(exact), len(arcs) * n
    variables = (arcs[:, 0, None] * n + np.arange(n)).ravel(), (arcs[:, 1, None] * n + np.arange(n)).ravel()
    below = sparse.csc_array(
        (np.r_[np.ones(count), np.full(count, -growth)], (np.tile(np.arange(count), 2), np.concatenate(variables))),
        shape=(count, n * n),
    )
    rows = sparse.kron(sparse.eye_array(n), np.ones((1, n)), format="csc")
    value = pi[:, None] * worth
    solution = minimise(-value.ravel(), (below, np.zeros(count)), (rows, np.ones(n)))
    # Cut at 0, as the bound is proven for multipliers of at least 0 only.
    bound = _gain_bound(value, arcs, np.maximum(solution.below, 0).reshape(len(arcs), n), growth)
    mechanism = from_probabilities(graph, exact, solution.x.reshape(n, n), "linear program", np.arange(n))
    return Optimum(mechanism, accuracy(mechanism).expected_gain(pi, gain), bound)


def _gain_bound(value: Floats, arcs: Integers, multipliers: Floats, growth: float) -> float:
    """Return Σ_i max_o (π_i G_io − Σ_j (λ_ijo − e^ε λ_jio)), rounded up."""
    reduced, size = value.copy(), np.abs(value)
    np.add.at(reduced, arcs[:, 0], -multipliers)
    np.add.at(reduced, arcs[:, 1], growth * multipliers)
    np.add.at(size, arcs[:, 0], multipliers)
    np.add.at(size, arcs[:, 1], growth * multipliers)
    # The rounding of sums is a part of the sum of absolute values, which `size` collects.
    slack = 4 * (2 * len(value) + 8) * _UNIT
    return float((reduced + slack * size).max(axis=1).sum() + slack * size.max(axis=1).sum())


# --- Choosing ---------------------------------------------------------------------------------------------


@final
@dataclass(frozen=True)
class MechanismCandidate:
    """A line of the comparison.

    Attributes:
        family: The family of the mechanism.
        gain: The expected gain with the best remap for it.
        hit_rate: The probability of a right guess, with the best remap for it.
        mae: The mean absolute error of the answers with the remap for the gain; None if results are not numbers.
        rmse: The root of the mean squared error of these answers; None if results are not numbers.
        leakage: Min-entropy leakage about the result, in bits.
        bound: Bound on the gain of any mechanism that uses only the true answer; None if none is known for this gain.
        gap: The bound less the gain, at least 0; None without a bound.
        seconds: Time of its construction.
        remark: The reason for which the mechanism was not made, or empty.

    A mechanism that was not made has only its family, the time and the remark; all other numbers are None.
    """

    family: str
    gain: float | None = None
    hit_rate: float | None = None
    mae: float | None = None
    rmse: float | None = None
    leakage: float | None = None
    bound: float | None = None
    gap: float | None = None
    seconds: float = 0.0
    remark: str = ""


@final
@dataclass(frozen=True, eq=False)
class MechanismChoice:
    """The chosen mechanism, and the comparison behind the choice.

    Attributes:
        mechanism: The mechanism.
        guesses: The best remap for the prior and the gain, (outputs,).
        reason: The reason for the choice, as a message.
        candidates: The comparison.
    """

    mechanism: FiniteMechanism
    guesses: Integers
    reason: Message
    candidates: tuple[MechanismCandidate, ...]

    @property
    def why(self) -> str:
        """The reason for the choice, in English."""
        return english(self.reason)

    def table(self) -> str:
        """Return the comparison as lines of text."""
        return "\n".join(aligned(compared(self.candidates)))


def compared(candidates: Sequence[MechanismCandidate]) -> ReportTable:
    """Return the comparison, a row for each mechanism."""
    columns = (
        ReportColumn("family", Message("report.heading.family")),
        ReportColumn("gain", Message("report.heading.gain"), ValueKind.FINE),
        ReportColumn("hit_rate", Message("report.heading.hit_rate"), ValueKind.FINE),
        ReportColumn("mae", Message("report.heading.mae"), ValueKind.FINE),
        ReportColumn("rmse", Message("report.heading.rmse"), ValueKind.FINE),
        ReportColumn("leakage", Message("report.heading.leakage"), ValueKind.FINE),
        ReportColumn("bound", Message("report.heading.bound"), ValueKind.FINE),
        ReportColumn("gap", Message("report.heading.gap"), ValueKind.GAP),
        ReportColumn("seconds", Message("report.heading.seconds"), ValueKind.SECONDS),
        ReportColumn("remark", ""),
    )
    return ReportTable.from_rows("candidates", columns, map(vars, candidates))


def best_mechanism(
    graph: Graph,
    epsilon: float | Fraction,
    prior: npt.ArrayLike,
    gain: npt.ArrayLike | None = None,
    *,
    certify: families.Certify | None = None,
    program_limit: int = 40,
    slow_limit: int = DENSE_LIMIT,
    slack: float = 0.0,
) -> MechanismChoice:
    """Construct the possible mechanisms for a query, and choose the one of the largest gain under a prior.

    The order is tight constraints, residual column, linear program (up to `program_limit` results), staircase,
    geometric, distance kernel, randomised response. Gains that differ by less than a part of 10⁻⁹ count as equal, and
    the first is chosen. The program is left out if an earlier mechanism attains the bound.

    Args:
        graph: The graph of the query.
        epsilon: The ε of the mechanism.
        prior: π, (n,).
        gain: g, (n, n); None for 1 if the guess is right, and 0 otherwise.
        certify: Function that decides existence, as for `families.tight_constraints`.
        program_limit: Most results for the program in all pairs, at most PROGRAM_LIMIT.
        slow_limit: Most results for the residual column and the distance kernel, which take longest.
        slack: A negligible part of the largest gain. Among mechanisms that lose no more than this part, the choice is
            the least root mean squared error, if results are numbers.

    Raises:
        WorkloadError: The prior or the gain is not valid, or ε is out of range.
        PlanError: No mechanism could be constructed, or, without a gain, the bound cannot be computed (`hit_bound`).

    **Guarantees**

    - The choice uses no data: the query, ε and the prior are public.
    - Each mechanism in the comparison is ε-private, exactly, with its own charge; only one is chosen.
    - The choice is the same every time.
    """
    exact, pi = rational(epsilon), checked_prior(graph.n, prior)
    worth = None if gain is None else checked_gain(graph.n, gain)
    if worth is not None and worth.shape[1] != graph.n:
        raise gain_not_square(graph.n, worth.shape[1])
    bound = hit_bound(graph, exact, pi).upper if worth is None else None
    # The order matters: of equal gains, the first mechanism is chosen.
    makers: list[tuple[str, Callable[[], FiniteMechanism | Optimum]]] = [
        ("tight constraints", lambda: families.tight_constraints(graph, exact, certify)),
        ("residual column", lambda: residual_column(graph, exact, pi)),
        ("linear program", lambda: optimal(graph, exact, pi, worth)),
        ("staircase", lambda: families.staircase(graph, exact)),
        ("geometric", lambda: families.geometric(graph, exact)),
        ("distance kernel", lambda: families.distance_kernel(graph, exact)),
        ("randomised response", lambda: families.randomised_response(graph, exact)),
    ]
    candidates: list[tuple[MechanismCandidate, FiniteMechanism | None]] = []
    for family, make in makers:
        best = max((c.gain for c, _ in candidates if c.gain is not None), default=-math.inf)
        if family == "linear program":
            # The program takes longest, and cannot gain more than a bound that is attained.
            attained = bound is not None and best >= bound - _SAME * abs(bound)
            if attained or graph.n > min(program_limit, PROGRAM_LIMIT):
                remark = "not needed" if attained else "too many results"
                candidates.append((MechanismCandidate(family, remark=remark), None))
                continue
        if family in ("residual column", "distance kernel") and graph.n > slow_limit:
            candidates.append((MechanismCandidate(family, remark="too many results"), None))
            continue
        begun = time.perf_counter()
        try:
            result = make()
        # A family that does not exist for this question is a line of the comparison, not an error.
        except (PlanError, WorkloadError) as error:
            seconds = time.perf_counter() - begun
            candidates.append((MechanismCandidate(family, seconds=seconds, remark=error.given), None))
            continue
        seconds = time.perf_counter() - begun
        if isinstance(result, Optimum):
            # The bound of the residual column is for hits.
            if worth is None or family == "linear program":
                bound = result.bound if bound is None else min(bound, result.bound)
            result = result.mechanism
        candidates.append((_measured(result, pi, worth, seconds), result))
    built = [(c, m) for c, m in candidates if c.gain is not None and m is not None]
    if not built:
        raise PlanError(
            "no-finite-mechanism",
            f"No mechanism could be made for the question ({', '.join(c.family for c, _ in candidates)}).",
            f"The first family of mechanisms failed for this reason: {candidates[0][0].remark}",
            "Choose another ε, or a coarser question.",
            "No mechanism was made.",
        )
    top = max(c.gain for c, _ in built if c.gain is not None)
    good = [(c, m) for c, m in built if c.gain is not None and c.gain >= top - max(slack, _SAME) * max(1e-3, abs(top))]
    chosen, mechanism = good[0]
    if slack:
        # Rounded, so that the order of the families decides between equal errors.
        chosen, mechanism = min(good, key=lambda x: round(x[0].rmse, 6) if x[0].rmse is not None else 0.0)
    rows = tuple(_bounded(c, bound) for c, _ in candidates)
    reason = _reason(chosen, bound)
    if chosen.gain is not None and chosen.gain < top - _SAME * max(1e-3, abs(top)):
        reason = Message("report.finite.least_squared_error", (*_gain(chosen), Value("most", top, ValueKind.NUMBER)))
    return MechanismChoice(mechanism, accuracy(mechanism).remap(pi, worth), reason, rows)


def _reason(chosen: MechanismCandidate, bound: float | None) -> Message:
    values, gain = _gain(chosen), chosen.gain or 0.0
    if bound is None:
        return Message("report.finite.no_bound", values)
    gap = max(0.0, bound - gain)
    if gap <= 1e-9 * max(1e-3, abs(bound)):
        return Message("report.finite.attained", values)
    proven = (Value("gap", gap, ValueKind.GAP), Value("bound", bound, ValueKind.NUMBER))
    return Message("report.finite.near_bound", (*values, *proven))


def _gain(chosen: MechanismCandidate) -> tuple[Value, Value]:
    return Value("family", chosen.family), Value("gain", chosen.gain or 0.0, ValueKind.NUMBER)


def gain_not_square(n: int, columns: int) -> WorkloadError:
    """Return the error for a gain with another number of columns than the query has results.

    Args:
        n: Number of results.
        columns: Number of columns of the gain.
    """
    return WorkloadError(
        "gain-not-square",
        f"The gain has {columns} columns.",
        f"Guesses are the {n} results here.",
        f"Give a gain with {n} columns.",
        "Nothing was computed.",
    )


def _bounded(candidate: MechanismCandidate, bound: float | None) -> MechanismCandidate:
    if candidate.gain is None or bound is None:
        return candidate
    return replace(candidate, bound=bound, gap=max(0.0, bound - candidate.gain))


def _measured(mechanism: FiniteMechanism, pi: Floats, gain: Floats | None, seconds: float) -> MechanismCandidate:
    guesses = accuracy(mechanism).remap(pi, gain)
    numbers = points(mechanism.graph.results) is not None
    return MechanismCandidate(
        family=mechanism.family,
        gain=accuracy(mechanism).expected_gain(pi, gain),
        hit_rate=accuracy(mechanism).expected_gain(pi),
        mae=accuracy(mechanism).mae(pi, guesses) if numbers else None,
        rmse=accuracy(mechanism).rmse(pi, guesses) if numbers else None,
        leakage=accuracy(mechanism).leakage(pi),
        seconds=seconds,
    )
