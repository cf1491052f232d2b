"""Planning for pure ε: it turns targets into an integer strategy with Laplace noise, at the least ε that is found.

Several families of strategies are searched. Each result becomes integers, and the plan takes the family of least cost.
The families are A_b = θ_b A* on the margins over sets b of exchangeable attributes. `margin_weights` optimises θ and
`p_identity` optimises A* on the structured cells, in turns. An amount is two cells, its ends, or more knots. A record
lies between two knots. The search treats knots as any other cells, and `estimate.nearest` rounds the result to
queries that are integers between the knots as well.

**Statement.** The matrix mechanism minimises the total error Σ w(AᵀA)⁻¹wᵀ over strategies A of ℓ1 sensitivity 1. This
module also minimises the worst error relative to targets. The problem is not convex, and no bound is known that is
close to the optimum. The plan therefore states its ratio to a proven lower bound.

**Proof.** Since ℓ1 distances are at least ℓ2 distances, any lower bound for Gaussian noise is one for Laplace noise.
The bounds hold for records at knots, and so for all records.

**Source.** Li, Hay, Rastogi, Miklau and McGregor (PODS 2010); the worst error relative to targets is this project's.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import final

import numpy as np
from numpy.typing import NDArray

from fitnoise.algebra import operators as op
from fitnoise.algebra import rules
from fitnoise.algebra.backends import one_thread
from fitnoise.errors import CapExceeded, PlanError, SingularStrategy, WorkloadError
from fitnoise.kernel.arrays import Floats
from fitnoise.kernel.checks import checked_positive
from fitnoise.kernel.designs._base import CellStructure
from fitnoise.kernel.designs.margins import MAX_NOISE_SCALE, MIN_NOISE_SCALE, MeasuredMargin, PureStrategy
from fitnoise.kernel.designs.query_blocks import largest_entry
from fitnoise.kernel.units import Neighbours, PrivacyUnit
from fitnoise.mechanisms._base import Planner, SearchOptions
from fitnoise.mechanisms.gaussian.planning import RealStrategy, ideal
from fitnoise.mechanisms.gaussian.rounding import cut
from fitnoise.mechanisms.laplace.estimate import PureEstimation, filled, integer_margins
from fitnoise.mechanisms.laplace.hierarchies import covariances, height, hierarchy
from fitnoise.mechanisms.laplace.margins import pure_relaxation, target_margins
from fitnoise.mechanisms.laplace.mechanism import LAPLACE
from fitnoise.mechanisms.tables import TablePart, refuse_pointless
from fitnoise.mechanisms.terms import relaxation, terms
from fitnoise.mechanisms.variances import variances_of
from fitnoise.messages import Message
from fitnoise.request.domain import Domain
from fitnoise.request.publication import Publication
from fitnoise.request.workloads import Workload, exchangeable_attributes
from fitnoise.solving import margin_weights, mixed_margins, p_identity
from fitnoise.solving.certificates import ObjectiveTerms
from fitnoise.solving.fixed_random import FixedGenerator
from fitnoise.solving.p_identity import Queries
from fitnoise.solving.sectors import Decomposition, decompose, ways_out
from fitnoise.solving.statuses import status_message

# Twelve bits cost up to 0.04 % of the worst variance, and twenty no visible share.
BITS = 20
"""Bits of the integer strategy."""

# A tighter bound would not help the reader: the ratio of cost to bound is not near 1.
BOUND_GAP = 1e-3
"""Gap between the proven bound and its own optimum."""

# Queries rise from knot s − 1 to knot s by multiples of K_s, the number of steps in between: this takes more bits.
MAX_AMOUNT_BITS = 38
"""Most bits of the integer strategy with amounts."""

# With fewer bits, rounding raises the cost tenfold.
MIN_JOINT_BITS = 4
"""Least bits for queries on joint cells of several amounts; with fewer, the search skips these queries."""

# Strategies on the structured cells are dense matrices.
MAX_CELLS = 4096
"""Most structured cells."""

MAX_ANSWERS = 2**24
"""Most noisy answers of a strategy in the search."""

MAX_CANDIDATES = 512
"""Most margins that can have a weight."""

STARTS = 64
"""Random subsets of margins from which weights are searched, in addition to the subsets by order."""

FEWER_STARTS = 4
"""Random subsets of margins if the search alternates with queries on structured cells."""

# Half the starts, and one turn less, end within 0.2 % for 35 of 36 problems. One problem ends 0.7 to 1.3 % away; other
# numbers of starts change it as much.
KIND_STARTS = 8
"""Starts for the cells and sums from which every margin then mixes its own."""

MAX_ENTRIES = 4 * 10**7
"""Most squared structured cells times sectors for which every margin can have its own queries on the cells."""

# Each margin needs an integral.
MANY_ROWS = 20_000
"""Rows of tables above which the search is not repeated for margins."""

ALTERNATING_ROUNDS = 2
"""Turns of the weights of margins and the queries on structured cells, if margins are not mixed later."""

CELLS_FAMILY = "every cell on its own"

AMOUNTS_FAMILY = "cells and sums by request"

FAMILIES = {
    CELLS_FAMILY: "report.status.family_cells",
    "best hierarchy": "report.status.family_hierarchy",
    "cells and sums": "report.status.family_sums",
    "cells and sums by margin": "report.status.family_margin_sums",
    AMOUNTS_FAMILY: "report.status.family_request_sums",
    "margins": "report.status.family_margins",
}
"""The id of the sentence on a plan of each family of strategies."""

BRANCHES = (2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32)
"""Numbers of children of a node in the hierarchies of the search."""


@final
@dataclass(frozen=True)
class StrategyCandidate:
    """One family of strategies, evaluated without data.

    family: Its name.
    epsilon: The ε of the plan times a ratio: the least ε at which this family meets the variances, over that of the
        plan's family.
    ratio: ε²/2 over the proven bound.
    answers: Number of noisy answers.
    seconds: Time of its search.
    """

    family: str
    epsilon: float
    ratio: float
    answers: int
    seconds: float


@final
@dataclass(frozen=True, eq=False)
class StrategySearch:
    """The result of a search: the part of the best family, and one line for each family, best first."""

    part: TablePart
    candidates: tuple[StrategyCandidate, ...]


def refined_without_zcdp() -> PlanError:
    """Return the error for a gap or a refinement that is requested without Gaussian noise."""
    return PlanError(
        "refine-without-zcdp",
        "refine or gap is set, and privacy is not 'zcdp'.",
        "Only plans with Gaussian noise are refined or have a requested gap.",
        "Leave refine and gap out, or set privacy = 'zcdp'.",
        "No plan was made.",
    )


@final
class LaplacePlanner(Planner):
    """The planner of Laplace noise."""

    mechanism = LAPLACE

    def plan(self, request: Publication, effort: SearchOptions) -> TablePart:
        """Return the part of the best family of strategies."""
        if effort.refine or effort.gap is not None:
            raise refined_without_zcdp()
        return search(request, seconds=effort.seconds, progress=effort.progress).part


def too_many_cells(domain: Domain, bound: Sequence[str], cells: int) -> WorkloadError:
    """Return the error for more joint cells than strategies for Laplace noise have.

    Args:
        domain: Domain of the tables.
        bound: Structured attributes.
        cells: Number of their joint cells.
    """
    ways = ways_out(domain, bound).strip()
    return WorkloadError(
        "too-many-cells-for-laplace",
        f"Ranges, groups, per-value targets or a matrix give the attributes {bound} {cells:,} joint cells.",
        f"Plans with Laplace noise have at most {MAX_CELLS:,}.",
        "Coarsen one, show it value by value with one target, or set privacy = 'zcdp', which allows more."
        f"{ways and ' ' + ways}",
        "Nothing was planned.",
    )


def too_many_answers(d: Decomposition) -> WorkloadError:
    """Return the error for tables that need more noisy answers, or longer numbers, than any strategy has.

    Args:
        d: Decomposition of the tables.
    """
    steps = [a for a, _ in d.steps]
    coarser = "Declare larger steps, or prepare products as amounts of their own. " if steps else ""
    return WorkloadError(
        "too-many-answers-for-laplace",
        f"Every strategy for Laplace noise has more than {MAX_ANSWERS:,} noisy answers for these tables, or needs more "
        f"than {MAX_AMOUNT_BITS if steps else BITS} bits.",
        f"Ranges of the amounts {steps} can have too many steps for these bits." if steps else "",
        f"{coarser}Show fewer attributes in a table, bring the tightest and the loosest target closer, or set "
        "privacy = 'zcdp', which allows more.",
        "Nothing was planned.",
    )


def search(
    publication: Publication,
    *,
    all_families: bool = False,
    seconds: float | None = None,
    progress: Callable[[int, float], None] | None = None,
) -> StrategySearch:
    """Find a pure strategy that meets every target at a small ε, and prove a lower bound. Reads no data.

    Args:
        publication: A publication with `privacy` pure.
        all_families: True to search also the families that the last family dominates. It starts from their results, or
            they cost at least 10 % more in each of 36 problems (docs/mathematics/matrix_mechanism.md).
        seconds: The time limit of the search, which then returns the best strategy found; default none. Families that
            take little time come first. The bound and the first family are computed regardless of the limit.
        progress: A callback with the number of steps and the least ε so far at which all variances meet their targets.
            The first ε comes before the bound is proven; it is that of noise on every cell if this family is searched.

    Raises:
        WorkloadError: There are too many structured cells, or too many noisy answers.
        CapExceeded: The plan costs more than the cap.
        PlanError: Exact 64-bit noise cannot meet the targets, or the tables have no privacy cost.

    **Guarantees**
        * The search reads no data. Without `seconds` the same publication gives the same plan.
        * Every variance and every requested margin, recomputed from the integers, is at most its target. For total
          error the total is, and under a budget all are times one common factor.
        * ε is computed from the integers and the bound from the problem. Neither comes from a solver.
        * By the variances alone, the plan costs no more than any family of the search. Noise on every cell is one of
          them, unless the last families alone are searched.
    """
    domain, bound = publication.workload.domain, exchangeable_attributes(publication.workload)[1]
    cells = math.prod(domain.sizes[a] for a in bound)
    if cells > MAX_CELLS:
        raise too_many_cells(domain, bound, cells)
    clock = p_identity.TimeLimit(None if seconds is None else checked_positive("seconds", seconds))
    d = decompose(publication.workload)
    objective = terms(publication, d)
    proof: RealStrategy | None = None
    candidates: list[tuple[float, str, PureStrategy, float]] = []
    steps, min_squared = itertools.count(1), math.inf

    def report(squared_epsilon: float) -> None:
        nonlocal min_squared
        min_squared = min(min_squared, squared_epsilon)
        if progress is not None:
            progress(next(steps), math.sqrt(min_squared))

    def report_fraction(fraction: float) -> None:
        # The fractions refer to the cost of noise on every cell, which is known only if that family was searched.
        if candidates and candidates[0][1] == CELLS_FAMILY:
            report(fraction * candidates[0][0])

    problem = _MarginProblem(d, objective.weights, clock=clock, report_progress=report_fraction)
    families = list(_families(problem))
    if not all_families and (problem.coarse or (seconds is None and problem.mixes)):
        # The last family dominates those before it; with several amounts, neither of the last two dominates the other.
        families = families[-2 if problem.amounts > 1 and not problem.coarse else -1 :]
    for family, make in families:
        if candidates and clock.is_over:
            break
        begun = time.perf_counter()
        # Its matrices are tall and thin: two threads took five times as long on 1,024 cells.
        with one_thread():
            candidates += [(*x, time.perf_counter() - begun) for x in _tried(publication, d, objective, family, make())]
        if candidates:
            report(min(x[0] for x in candidates))
            # Once, after the first family: a time limit must not leave a plan without a bound.
            proof = proof or ideal(d, objective, publication, BOUND_GAP)
    if proof is None:
        raise too_many_answers(d)
    candidates.sort(key=lambda x: x[0])
    squared_epsilon, family, strategy, _ = candidates[0]
    spent = float(strategy.unit_epsilon(publication.adjacency) ** 2)
    # `spent` is ε² at the least scale. It is 0 if the tables cost nothing, which `refuse_pointless` reports below.
    at_unit = squared_epsilon / spent if spent else None
    with one_thread():
        scaled = _improved(publication, problem, family, _scale_to_targets(publication, d, strategy, at_unit)).strategy
    outcome = (
        status_message(FAMILIES[family]),
        *_stopped(seconds, clock),
        status_message("report.status.bound_gap", gap=proof.gap),
    )
    part = TablePart(LAPLACE, publication, scaled, proof.evidence, outcome)
    refuse_pointless(part.exact_cost)
    _check_cap(part)
    lines: dict[str, StrategyCandidate] = {}
    for value, name, s, took in candidates:
        fraction = value / candidates[0][0]
        line = StrategyCandidate(
            name, part.epsilon() * math.sqrt(fraction), part.ratio * fraction, sum(s.lengths), took
        )
        lines.setdefault(name, line)
    return StrategySearch(part, tuple(lines.values()))


def _stopped(seconds: float | None, clock: p_identity.TimeLimit) -> tuple[Message, ...]:
    """Return the sentence about a search that ended at its time limit; empty if it ended before."""
    if seconds is None or not clock.is_over:
        return ()
    return (status_message("report.status.search_time", seconds=seconds),)


def _tried(
    publication: Publication, d: Decomposition, terms: ObjectiveTerms, family: str, weights: Weights | None
) -> Iterator[tuple[float, str, PureStrategy]]:
    """Yield integer strategies for a family's weights, with the ε² at which they meet every target."""
    if weights is None:
        return
    budget, records = publication.budget, publication.adjacency.records
    spent = None if budget is None or budget.pure is None else float(budget.pure)

    def round_with(bits: int) -> Iterator[tuple[float, str, PureStrategy]]:
        for margins in _round_queries(weights, publication.unit, d.cell_structure, bits):
            strategy = PureStrategy(d.cell_structure, margins, MIN_NOISE_SCALE)
            cost = float(strategy.unit_epsilon(publication.adjacency) ** 2)
            # The targets differ too much for these bits.
            with contextlib.suppress(SingularStrategy):
                squared_epsilon = cost * relaxation(d, terms, variances_of(d, PureEstimation(strategy, d).whiteners))
                yield squared_epsilon, family, strategy

    bits = _bits(d.cell_structure, records, spent)
    initial = list(round_with(bits))
    # The first rounding shows the ε, and with it the room for bits below the largest noise scale.
    fewer = _bits(d.cell_structure, records, spent or math.sqrt(min(x[0] for x in initial))) if initial else bits
    yield from initial if fewer == bits else round_with(fewer)


# --- the families -----------------------------------------------------------------------------------------

Weights = dict[tuple[int, ...], Floats]
"""Real queries A_b (m, n_o) by set of exchangeable attributes."""

Parts = list[tuple[tuple[int, ...], float, Floats]]
"""θ and A* (m, distinguished cells), by set of exchangeable attributes; a set can occur more than once."""


def _families(problem: _MarginProblem) -> Iterator[tuple[str, Callable[[], Weights | None]]]:
    """Yield the families that apply to these tables: their name and their search."""
    yield CELLS_FAMILY, problem.cells
    if problem.inner > 1:
        if len(problem.d.structured) == 1 and problem.inner > min(BRANCHES):
            yield "best hierarchy", lambda: problem.turns(problem.tree)
        yield "cells and sums", lambda: problem.expand_cells(problem.shared)
        if problem.free:
            yield "cells and sums by margin", problem.by_margin
        if problem.amounts > 1:
            yield AMOUNTS_FAMILY, problem.by_amount
    elif problem.free:
        yield "margins", lambda: problem.turns(lambda _: np.ones((1, 1)))


@final
class _MarginProblem:
    """Weights θ of margins and queries A* on the structured cells, each with the other held fixed.

    Table A has the query l_j on the structured cells in row j, n_a are the sizes of attributes, and S a sector.
    The variance of row j of table A, for unit noise, is F_A r_j with r_j = l_j(A*ᵀA*)⁻¹l_jᵀ and

        F_A = Σ_{S⊆A} [Π_{a∈S} (1 − 1/n_a)] n_{A∖S}⁻² / Λ_S,    Λ_S = Σ_{b⊇S} θ_b² / n_{b∖S}.
    """

    def __init__(
        self,
        d: Decomposition,
        omega: Floats | None,
        before: _MarginProblem | None = None,
        clock: p_identity.TimeLimit | None = None,
        report_progress: Callable[[float], None] | None = None,
    ) -> None:
        """Pose the problem of the tables in `d`.

        omega: The weights of a total error; None for the worst ratio.
        before: A similar problem with its results, as a start.
        clock: The clock that ends the search.
        `report_progress`: A callback for the best result so far, as a share of the squared cost of noise on every cell.
        """
        self.d, self.omega, self.before, self._report = d, omega, before, report_progress
        self.clock = clock or p_identity.TimeLimit(None)
        # The kinds of queries, and θ of each for each margin.
        self.mixed: dict[str, tuple[list[Floats], Floats]] = {}
        self.free = tuple(i for i, n in enumerate(d.sizes) if n > 1)
        self.queries: dict[int, op.Operator] = {}
        for g in d.tables:
            if id(g.queries) not in self.queries:
                self.queries[id(g.queries)] = (
                    g.queries if isinstance(g.queries, op.Operator) else op.from_matrix(g.queries)
                )
        queries = Queries.from_pairs(*((q, 1.0) for q in self.queries.values()))
        self.reduced, self.which = p_identity.reduce_cells(queries)
        # Cells that no query distinguishes are measured as one.
        self.merge = (self.which == np.arange(self.reduced.cells)[:, None]).astype(np.float64)
        self.rng = FixedGenerator()
        self.margins = _Margins(d, self.free, self.inner, total=omega is not None)

    @property
    def inner(self) -> int:
        """The number of structured cells that the queries distinguish."""
        return self.reduced.cells

    @property
    def amounts(self) -> int:
        """The number of amounts among the structured attributes."""
        return len(self.d.steps)

    @property
    def coarse(self) -> bool:
        """True if the steps of joint cells of amounts leave too few bits for queries on these cells."""
        bits = sum(math.log2(max(pieces)) for _, pieces in self.d.steps)
        return self.amounts > 1 and self.small and bits > MAX_AMOUNT_BITS - MIN_JOINT_BITS

    @property
    def small(self) -> bool:
        """True if there are few enough structured cells, and sectors, for queries of several kinds."""
        return self.inner > 1 and self.inner**2 * self.margins.sectors <= MAX_ENTRIES

    @property
    def mixes(self) -> bool:
        """True if every margin can have its own queries on the structured cells."""
        return bool(self.free) and self.small

    def cells(self) -> Weights | None:
        """Return noise on every cell, or None if that has too many answers."""
        answers = math.prod(self.d.sizes) * self.inner
        return {self.free: self.merge} if answers <= MAX_ANSWERS else None

    def tree(self, factors: Floats) -> Floats:
        """Return the best hierarchy over the cells in their order, with or without its root, of ℓ1 sensitivity 1."""
        posed = self.posed(factors)
        worth = posed.worst if self.omega is None else posed.total

        def tried() -> Iterator[tuple[float, int, bool]]:
            for b in (b for b in BRANCHES if b < self.inner):
                levels = height(self.inner, b)
                for rootless, covariance in zip((True, False), covariances(self.inner, b), strict=True):
                    yield worth(covariance * (levels + (not rootless)) ** 2), b, rootless

        _, b, rootless = min(tried())
        rows = hierarchy(self.inner, b).astype(np.float64)[int(rootless) :]
        return np.asarray(rows / rows.sum(axis=0).max())

    def posed(self, factors: Floats) -> Queries:
        """Return the requirements of the tables on A* if θ multiplies their variances by these factors."""
        totals: dict[int, Floats] = {}
        for g in self.d.tables:
            f, key = factors[g.tables][:, None], id(g.queries)
            if self.omega is None:
                numbers = (g.variances / f).min(axis=0)
                totals[key] = np.minimum(totals[key], numbers) if key in totals else numbers
            else:
                numbers = (self.omega[g.numbers] * f).sum(axis=0)
                totals[key] = totals[key] + numbers if key in totals else numbers
        return self.reduced.with_numbers([totals[key] for key in self.queries])

    def sums(self, factors: Floats) -> Floats:
        """Return cells and the best sums for the factors F_A of the tables, starting from an earlier search."""
        posed = self.posed(factors)
        # The earlier sums are a good start, as only the targets changed.
        if self.before is None or self.omega is not None:
            return self._plan_cells(posed).matrix
        star = self.before.shared[0][2]
        cells = star[: self.inner]
        return p_identity.improve_worst(posed, star[self.inner :] / cells.diagonal()).matrix

    @cached_property
    def shared(self) -> Parts:
        """Weights, and the cells and sums that all margins share."""
        return self._turns(self.sums)

    def turns(self, inner: Callable[[Floats], Floats]) -> Weights | None:
        """Return θ and A*, optimised in turns, from noise on every cell."""
        return self.expand_cells(self._turns(inner))

    def _turns(self, inner: Callable[[Floats], Floats]) -> Parts:
        star, weights = inner(self.margins.of_cells), {self.free: 1.0}
        for _ in range(0 if not self.free else 1 if self.inner == 1 or self.mixes else ALTERNATING_ROUNDS):
            weights, factors = self.margins.solve(self._rows(star), self.rng, self.clock.seconds_left)
            star = inner(factors)
        return [(b, w, star) for b, w in weights.items()]

    def expand_cells(self, parts: Parts) -> Weights | None:
        """Return the queries of every margin on all structured cells; None if they have too many answers."""
        answers = sum(math.prod(self.d.sizes[a] for a in b) * len(star) for b, _, star in parts)
        if answers > MAX_ANSWERS:
            return None
        out: dict[tuple[int, ...], list[Floats]] = {}
        for b, w, star in parts:
            out.setdefault(b, []).append(w * star @ self.merge)
        return {b: np.concatenate(x) for b, x in out.items()}

    def by_margin(self) -> Weights | None:
        """Return weights and queries on the structured cells for each margin, starting from θ and A* in turns.

        The kinds of queries are the total, A* for all tables, and A* for each set of queries of the tables. Return None
        for too many cells or answers, or if no margin is free.
        """
        return self._by_kinds("margin", lambda: self.shared) if self.mixes else None

    def by_amount(self) -> Weights | None:
        """Return weights and queries as `by_margin`, but without A* for all tables: for several amounts.

        Few tables use joint cells of several amounts. Queries on joint cells rise by multiples of products of K_s, and
        with too many steps no query is possible. The queries for one set of tables do not distinguish the values of
        amounts that these tables do not show.
        """
        return self._by_kinds("amount", list) if self.small else None

    def _by_kinds(self, how: str, shared: Callable[[], Parts]) -> Weights | None:
        """Return the best weights of the total, of A* for each set of queries, and of a shared A* if there is one."""
        margins, is_total = self.margins, self.omega is not None
        if self.before is not None and how in self.before.mixed:
            stars, theta = self.before.mixed[how]
            return self._mixed(how, stars, [theta], mixed_margins.SHARPNESS[2:])
        parts = shared()
        posed = self.posed(margins.of_cells / margins.of_cells.max())
        own_stars = [self._plan_query_set(r, c) for r, c in zip(posed.operators, posed.numbers, strict=True)]
        stars = [np.ones((1, self.inner)), *(star for _, _, star in parts[:1]), *own_stars]
        offset = len(stars) - len(own_stars)
        positions = {b: i for i, b in enumerate(margins.names)}
        turned, natural = np.zeros((2, len(positions), len(stars)))
        for b, w, _ in parts:
            turned[positions[b], 1] = w
        for k, row in enumerate(self._query_tables, offset):
            r = rules.row_variances(row.queries, np.linalg.pinv(stars[k].T @ stars[k]))
            needs = (r * row.numbers).sum(axis=1) if is_total else (r / row.numbers).max(axis=1)
            for t, need in zip(self._tables[k - offset].tolist(), needs.tolist(), strict=True):
                natural[positions[margins.table_attributes[t]], k] += math.sqrt(need)
        natural /= natural.sum()
        # A weight of 0 stays 0 in the search, so every kind gets a small share in half of the starts.
        uniform = 0.02 / natural.size
        starts = [turned, natural, natural + uniform, turned + uniform] if parts else [natural, natural + uniform]
        return self._mixed(how, stars, starts, mixed_margins.SHARPNESS)

    def _mixed(self, how: str, stars: list[Floats], starts: list[Floats], sharpness: Sequence[float]) -> Weights | None:
        """Return the best weights found for kinds of queries, margin by margin, from some starts."""
        grams, start_sharpness = np.stack([a.T @ a for a in stars]), 1.0 if self.omega is None else None
        problem = mixed_margins.MixedMargins(self.margins.information, grams, self._query_tables, start_sharpness)
        theta, _ = mixed_margins.solve(problem, starts, sharpness, self.clock.seconds_left)
        self.mixed[how] = stars, theta
        names = enumerate(self.margins.names)
        return self.expand_cells(
            [(b, float(theta[i, k]), stars[k]) for i, b in names for k in np.flatnonzero(theta[i]).tolist()]
        )

    @cached_property
    def _tables(self) -> list[NDArray[np.intp]]:
        """The tables of each set of queries."""
        return [np.concatenate([g.tables for g in self.d.tables if id(g.queries) == key]) for key in self.queries]

    @cached_property
    def _query_tables(self) -> tuple[mixed_margins.EqualQueryTables, ...]:
        """The rows and targets of the tables for each set of queries."""
        rows = []
        for key, tables, queries in zip(self.queries, self._tables, self.reduced.operators, strict=True):
            groups = [g for g in self.d.tables if id(g.queries) == key]
            numbers = np.concatenate([g.variances if self.omega is None else self.omega[g.numbers] for g in groups])
            rows.append(mixed_margins.EqualQueryTables(queries, self.margins.shares[tables].toarray(), numbers))
        return tuple(rows)

    def _plan_cells(self, posed: Queries, *, is_partial: bool = False) -> p_identity.PIdentity:
        """Return cells and sums for the worst ratio, or the total.

        is_partial: True if these are not all queries.
        """
        solve = p_identity.minimise_worst if self.omega is None else p_identity.minimise_total
        report, starts = self._report, KIND_STARTS if self.mixes else None
        progress: p_identity.Progress | None = None
        if report is not None and not self.free and not is_partial:
            unit = (p_identity.worst_ratio if self.omega is None else p_identity.total)(
                posed, np.zeros((0, self.inner))
            )
            progress = lambda _, best: report(best / unit)  # noqa: E731
        return solve(posed, self.rng, starts=starts, max_seconds=self.clock.seconds_left, progress=progress)

    def _plan_query_set(self, queries: op.Operator, numbers: Floats) -> Floats:
        """Return the best cells and sums for some of the queries; cells that these treat equally are summed."""
        fewer, which = p_identity.reduce_cells(Queries((queries,), (numbers,)))
        star = p_identity.expand_classes(self._plan_cells(fewer, is_partial=True).matrix, which)
        # Every column has the same cost, so a query on the other cells costs nothing.
        if (which < 0).any():
            star = np.concatenate([star, (which < 0)[None].astype(np.float64)])
        return star

    def _rows(self, star: Floats) -> Floats:
        """Return each table's requirement on θ for this A*: its least c_j/r_j, or Σ ω_j r_j, one number per table."""
        out = np.empty(sum(len(g.tables) for g in self.d.tables))
        variances = dict(zip(self.queries, self.reduced.variances(p_identity.inverse(star.T @ star)), strict=True))
        for g in self.d.tables:
            r = variances[id(g.queries)]
            if self.omega is None:
                # A row that counts no cell has no noise, and meets every target.
                r = np.broadcast_to(r, g.variances.shape)
                bounds = np.divide(g.variances, r, out=np.full(r.shape, np.inf), where=r > 0)
                out[g.tables] = bounds.min(axis=1)
            else:
                out[g.tables] = (self.omega[g.numbers] * r).sum(axis=1)
        return out


@final
class _Margins:
    """The weights θ of margins over sets of exchangeable attributes, as arrays.

    of_cells: F_A if every cell is measured, (tables,).
    shares: U, the factors of 1/Λ_S in F_A, (tables, sectors): F = U (1/Λ).
    names: The candidates: sets b of exchangeable attributes.
    table_attributes: The exchangeable attributes of every table that have more than one value.
    """

    def __init__(self, d: Decomposition, free: tuple[int, ...], inner: int, *, total: bool) -> None:
        self.total = total
        masks: list[int] = [0] * sum(len(g.tables) for g in d.tables)
        for g in d.tables:
            for t, axes in zip(g.tables.tolist(), g.axes.tolist(), strict=True):
                masks[t] = margin_weights.bits(a for a in axes if a in free)
        cells = math.prod(d.sizes[a] for a in free)
        self.of_cells = np.array([cells / math.prod(n for a, n in enumerate(d.sizes) if b >> a & 1) for b in masks])
        sets = margin_weights.candidates(masks, d.sizes, MAX_CANDIDATES, cells=MAX_ANSWERS // (2 * inner)).tolist()
        self._starts = STARTS if inner == 1 else FEWER_STARTS
        self._information, self.shares = margin_weights.matrices(masks, sets, d.sizes)
        self.names = [tuple(a for a in free if b >> a & 1) for b in sets]
        self.table_attributes = [tuple(a for a in free if b >> a & 1) for b in masks]

    @property
    def sectors(self) -> int:
        """The number of sectors that the tables reach."""
        return int(self.shares.shape[1])

    @property
    def information(self) -> Floats:
        """N, the factors of θ_b² in Λ_S, (sectors, margins): Λ = N θ²."""
        return np.asarray(self._information.toarray())

    def solve(
        self, numbers: Floats, rng: FixedGenerator, seconds: float | None
    ) -> tuple[dict[tuple[int, ...], float], Floats]:
        """Return θ by set of attributes, and its factors F_A for the tables, (tables,)."""
        solve_weights = margin_weights.minimise_total if self.total else margin_weights.minimise_worst
        orders = [len(b) for b in self.names]
        theta = solve_weights(
            self._information, self.shares, numbers, orders, rng, starts=self._starts, max_seconds=seconds
        ).weights
        factors = self.shares @ (1 / (self._information @ theta**2))
        return {b: float(w) for b, w in zip(self.names, theta, strict=True) if w > 0}, np.asarray(factors)


# --- from real numbers to a plan --------------------------------------------------------------------------


def _check_cap(part: TablePart) -> None:
    """Raise CapExceeded if the plan costs more than its cap."""
    cap = part.publication.cap
    if cap is not None and cap.pure is not None and part.exact_epsilon is not None and part.exact_epsilon > cap.pure:
        raise CapExceeded(
            "laplace-plan-exceeds-cap",
            f"The plan costs ε = {part.epsilon():.6g}, and the cap is ε = {float(cap.pure):.6g}.",
            f"No linear mechanism with Laplace noise meets the targets below ε = {math.sqrt(2 * part.bound):.6g}.",
            "Loosen the targets, or raise the cap.",
            "No plan was made.",
            place="cap",
        )


def _round_queries(
    weights: Weights, unit: PrivacyUnit, structure: CellStructure, bits: int
) -> Iterator[tuple[MeasuredMargin, ...]]:
    """Yield integers for real queries, or nothing if all of them round to 0.

    The first have columns raised to the largest column sum where this costs nothing (`filled`). For replace-one,
    integers without raised columns follow, which may cost less.
    """
    stepped = structure if structure.steps else None
    margins = integer_margins(weights, bits, stepped)
    # All queries round to 0 if the ranges of amounts have more steps than there are bits.
    if margins:
        yield filled(margins, stepped)
        if unit.neighbours is Neighbours.REPLACE_ONE:
            yield margins


def _bits(structure: CellStructure, records: int, epsilon: float | None) -> int:
    """Return the bits of the integers: with amounts, additional bits for the products of K_s in their queries.

    The noise has a largest scale, which limits the bits: the scale is one unit's largest change of the answers, over ε.

    records: Number of records of a unit.
    epsilon: The ε of that unit, if known.
    """
    if not structure.steps:
        return BITS
    needed = BITS + math.ceil(sum(math.log2(max(pieces)) for _, pieces in structure.steps))
    room = math.inf if epsilon is None else math.log2(MAX_NOISE_SCALE * epsilon / records) - 2
    return int(min(needed, MAX_AMOUNT_BITS, max(room, 1)))


@final
@dataclass(frozen=True, eq=False)
class _ScaledStrategy:
    """A strategy with its accuracy, computed on access."""

    publication: Publication
    d: Decomposition
    strategy: PureStrategy

    @cached_property
    def estimation(self) -> PureEstimation:
        return PureEstimation(self.strategy, self.d)

    @cached_property
    def achieved(self) -> Floats:
        return variances_of(self.d, self.estimation.whiteners)

    @property
    def epsilon(self) -> float:
        """The ε of one protected unit."""
        return float(self.strategy.unit_epsilon(self.publication.adjacency))

    @cached_property
    def ratio(self) -> float:
        """Largest ratio of its variances and squared margins to the targets."""
        workload, objective = self.publication.workload, terms(self.publication, self.d)
        return pure_relaxation(workload, objective, self.estimation, self.achieved)


def _scale_to_targets(
    publication: Publication, d: Decomposition, strategy: PureStrategy, ratio: float | None = None
) -> _ScaledStrategy:
    """Return the strategy with the noise that just meets the targets, or that the budget allows.

    Args:
        publication: A publication with targets, and with a budget if there is one.
        d: Its tables in sectors.
        strategy: The queries.
        ratio: Approximate ratio of its variances to the targets, if known.

    Raises:
        PlanError: The scale is outside the range of the exact sampler, or ten steps do not meet the targets.
    """
    if publication.budget is not None and publication.budget.pure is not None:
        spent = strategy.unit_epsilon(publication.adjacency)
        # Exact, and rounded up: the charge is at most the budget.
        scale = Fraction(strategy.scale) * spent / publication.budget.pure
        return _ScaledStrategy(publication, d, _rescaled(strategy, _float_above(scale), up=True))
    if ratio is None:
        ratio = relaxation(d, terms(publication, d), _ScaledStrategy(publication, d, strategy).achieved)
    less = 1e-12
    for _ in range(10):
        strategy = _rescaled(strategy, strategy.scale * (1 - less) / math.sqrt(ratio), up=False)
        scaled = _ScaledStrategy(publication, d, strategy)
        ratio = scaled.ratio
        if ratio <= 1:
            return scaled
        # The margin of a single noise changes only in full steps of its lattice.
        less *= 16
    raise PlanError(
        "laplace-noise-not-settled",
        "The noise does not reach the targets in ten steps.",
        "",
        "Report this defect.",
        "No plan was made.",
    )


def _improved(
    publication: Publication, problem: _MarginProblem, family: str, scaled: _ScaledStrategy
) -> _ScaledStrategy:
    """Search the same family once more for margins, if they are requested, and return the better strategy.

    A margin at 95 % is 1.96 to 2.12 standard errors; the factor is larger for numbers that depend on few noises. Once
    there is a strategy, that factor is known, and so is the variance that each margin needs. The second search starts
    from the first result.
    """
    d = problem.d
    if terms(publication, d).weights is not None or d.rows > MANY_ROWS or problem.clock.is_over:
        return scaled
    adjusted = _adjusted(publication.workload, scaled)
    weights = (
        None
        if adjusted is None
        else dict(_families(_MarginProblem(adjusted, None, before=problem, clock=problem.clock)))[family]()
    )
    if weights is None:
        return scaled
    bits = _bits(d.cell_structure, publication.adjacency.records, scaled.epsilon)
    candidates = [scaled]
    for margins in _round_queries(weights, publication.unit, d.cell_structure, bits):
        # Amounts can have too many steps for these bits.
        with contextlib.suppress(SingularStrategy):
            candidates.append(_replan_noise(scaled, margins))

    def cost(one: _ScaledStrategy) -> float:
        return one.ratio * float(one.strategy.unit_epsilon(publication.adjacency) ** 2)

    # ε² at which the targets are just met, so strategies with other scales are comparable.
    return min(candidates, key=cost)


def _replan_noise(like: _ScaledStrategy, margins: tuple[MeasuredMargin, ...]) -> _ScaledStrategy:
    """Return other queries with the noise that just meets the targets, or that the budget allows."""
    return _scale_to_targets(like.publication, like.d, replace(like.strategy, measured=margins, scale=MIN_NOISE_SCALE))


def _adjusted(workload: Workload, scaled: _ScaledStrategy) -> Decomposition | None:
    """Return the tables with the variances that meet their margins under this noise; None without margins."""
    d, tables, any_ = scaled.d, [], False
    for g in d.tables:
        targets = g.variances.copy()
        for i, t in enumerate(g.tables.tolist()):
            margins = target_margins(workload, scaled.estimation, g, i, workload.tables[t])
            if margins is not None:
                any_ = True
                required, achieved = margins
                # A row that counts no cell has no noise, and keeps its target.
                ratios = np.divide(required, achieved, out=np.full(achieved.shape, np.inf), where=achieved > 0)
                noisy = scaled.achieved[g.numbers[i]] > 0
                limits = np.where(noisy, scaled.achieved[g.numbers[i]], 1.0) * ratios**2
                targets[i] = np.where(noisy, np.minimum(targets[i], limits), targets[i])
        tables.append(replace(g, variances=targets))
    return replace(d, tables=tuple(tables)) if any_ else None


def _float_above(x: Fraction) -> float:
    """Return the least float that is at least x; infinity if no finite float is."""
    try:
        y = float(x)
    except OverflowError:
        return math.inf
    return y if Fraction(y) >= x else math.nextafter(y, math.inf)


def _rescaled(strategy: PureStrategy, scale: float, *, up: bool) -> PureStrategy:
    """Return the strategy at another scale of 32 bits, with queries shifted so that the scale is ≥ MIN_NOISE_SCALE."""
    try:
        shift = max(0, math.frexp(MIN_NOISE_SCALE)[1] - math.frexp(scale)[1])
        if max(largest_entry(m.rows) for m in strategy.measured) << shift > MAX_NOISE_SCALE:
            raise OverflowError
        # Multiplying queries and scale by one power of 2 changes neither cost nor accuracy. Cut scales have short
        # texts.
        scale = float(cut(np.array([math.ldexp(scale, shift)]), up=up)[0])
        margins = [MeasuredMargin(m.attributes, m.rows << shift) for m in strategy.measured]
        return replace(strategy, measured=tuple(margins), scale=scale)
    except (OverflowError, PlanError):
        raise PlanError(
            "laplace-noise-out-of-reach",
            "The targets differ too much in size, or are too tight or too loose, for exact 64-bit noise.",
            "",
            "Scale the queries or the targets.",
            "Nothing was planned.",
        ) from None
