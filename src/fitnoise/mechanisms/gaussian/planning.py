"""Fit-for-use planning: it turns targets into a certified integer plan.

Accuracy first (Problem 1): meet every target at the least privacy cost. Privacy first (Problem 2): with a budget, find
the smallest factor k with every variance ≤ k times its target. Both have the same optimal covariance up to a scalar
(Theorem 5).

**Source.** Xiao, Ding, Wang, Zhang and Kifer, PVLDB 2021.
"""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TypeVar, cast, final

import numpy as np

from fitnoise.algebra import rules
from fitnoise.algebra.backends import NUMPY, one_thread, torch_backend
from fitnoise.errors import CapExceeded, GapNotReached, PlanError, SingularStrategy, SpecError, WorkloadError
from fitnoise.kernel.arrays import Floats
from fitnoise.kernel.designs._base import Design
from fitnoise.kernel.designs.products import ProductStrategy
from fitnoise.kernel.designs.sectors import Strategy
from fitnoise.kernel.designs.trees import TreeStrategy
from fitnoise.kernel.units import Neighbours
from fitnoise.mechanisms._base import Planner, SearchOptions, TableMechanism
from fitnoise.mechanisms.gaussian import places as by_place
from fitnoise.mechanisms.gaussian.formulation import AllPairs, Formulation
from fitnoise.mechanisms.gaussian.levels import (
    LEVELS,
    LevelEstimation,
    deepest_level_size,
    level_obstacle,
    problem,
    refuse_endless,
)
from fitnoise.mechanisms.gaussian.mechanism import GAUSSIAN, sectors_of
from fitnoise.mechanisms.gaussian.places import PLACES, PlaceEstimation, refuse_endless_classes
from fitnoise.mechanisms.gaussian.product_form import (
    PRODUCTS,
    ProductEstimation,
    joint_cells,
    obstacle,
    refuse_wide,
    rescaled,
    rounded,
)
from fitnoise.mechanisms.gaussian.product_form import problem as by_axis
from fitnoise.mechanisms.gaussian.rounding import rescale, round_strategy, variances
from fitnoise.mechanisms.gaussian.series import in_time
from fitnoise.mechanisms.tables import TablePart, refuse_pointless
from fitnoise.mechanisms.terms import relaxation, terms, traded, weighted_cost
from fitnoise.messages import Message, english
from fitnoise.request.publication import Publication
from fitnoise.solving import (
    cores,
    joint_bases,
    lexicographic,
    meeting_pairs,
    mirrored,
    solver,
    trees,
    weighted_trees,
)
from fitnoise.solving._base import Solution, Status, Weights
from fitnoise.solving.certificates import SINGLE_RECORDS, Evidence, Kinds, ObjectiveTerms, RecordSets, lower_bound
from fitnoise.solving.costly_sets import STARTING_SETS, CostlyMovingSets, CostlySets, ValuedSet
from fitnoise.solving.independent_noise import independent_precisions
from fitnoise.solving.joint_bases import RealJointStrategy
from fitnoise.solving.product_form import ProductProblem, RealProductStrategy, solve
from fitnoise.solving.record_kinds import weigh_kinds
from fitnoise.solving.sectors import (
    MAX_STRUCTURED_CELLS,
    Decomposition,
    centred_bases,
    decompose,
    decompose_by_axis,
)
from fitnoise.solving.statuses import status_message
from fitnoise.solving.trees import LevelProblem
from fitnoise.solving.weighted_trees import TreeWeights
from fitnoise.solving.witnesses import claimed

DEFAULT_GAP = 1e-6

ONE_THREAD = 512
"""The largest number of structured cells for one BLAS thread: on small matrices, more threads take many times
longer."""

MAX_DENSE_LEAVES = 128
"""The largest number of leaves of levels that are planned as one structured attribute, to any gap: it takes seconds."""

MAX_DENSE_LEAVES_SLOW = 1024
"""The largest number of leaves for such a plan if one weight a level is too far from the optimum: it takes minutes."""

LEVEL_GAP = 1e-2
"""Target gap for many places with different numbers of places. If the gap exceeds 1.5 times it, or the request asks a
smaller one, up to `MAX_DENSE_LEAVES_SLOW` places are planned as one structured attribute."""

REPLACED_GAP = 0.1
"""Largest gap under replace-one neighbours before a plan as one structured attribute, which takes hours."""

LEVEL_ITERATIONS = 200
"""The largest number of iterations of the ascent to the bound of a plan by levels."""

LEVEL_WORK = 10_000_000
"""Largest product of classes of places, over all sectors, and these iterations: about ten seconds. At least 20 are run.
The ascent does not end for lack of progress, because the bound can rise again after dozens of iterations without."""

CLASS_SCALES_GAP, CLASS_SCALES_GAP_SHARE, MANY_CLASSES = 2e-4, 0.4, 1000
"""The gap at which the search for scales by class of place ends. Above MANY_CLASSES classes it ends at
CLASS_SCALES_GAP_SHARE times the target gap, if this is larger."""

SIMPLE_LEVELS_GAP = 3e-3
"""Largest gap for one noise scale for each level and margin, which is the simplest plan."""

Solve = Callable[[Formulation, Weights | None, float], Solution]
"""Function that solves a problem to a gap, from starting weights if they are given."""

S = TypeVar("S", bound=Design)
"""The kind of a strategy."""

MIXTURE_STEPS = 8
"""Number of plans in each of three searches, over numbers of records of one unit and over mixtures."""

KIND_ROUNDS = 8
"""Largest number of times that the plan is solved for the kinds of sets of records of the best bound."""

MIN_KIND_GAIN = 1e-5
"""Least relative gain of the bound in one of these rounds, and the weight of single records in them."""

SETS_GAP = 1e-4
"""Target gap if records of one unit lie in different structured cells: each further digit needs more sets of them."""

SETS_CELLS = 256
"""The largest number of structured cells for plans on sets of records, which take a minute or two; above it, on single
records. Where records are replaced, each cell counts twice."""

SETS_ROUNDS = 60
"""The largest number of rounds that add the costliest sets of records to the planned ones."""

FIRST_SETS_GAP = 2e-3
"""First gap of the solver: the costliest sets at that point exceed the known sets by far more."""

SETS_GAP_FACTOR = 4
"""Ratio of the excess cost of the found sets to the next gap of the solver."""

SYMMETRY_TOLERANCE = 1e-4
"""Largest relative violation of targets by a strategy that is averaged over exchanges of cells."""

SETS_ADDED_PER_ROUND = 20
"""Number of sets of records to add in one round."""

MANY_SECTORS = 2**12
"""Number of sectors above which `MIXTURE_STEPS` falls to two."""

MAX_DENSE_CELLS = 1024
"""The largest number of joint cells of several structured attributes for a joint plan, to any gap, in about a minute.
Above it, product form takes seconds. If the request asks a smaller gap, the joint plan is used up to
`MAX_STRUCTURED_CELLS` cells."""

MAX_DENSE_CELLS_SLOW = 2048
"""The largest number of joint cells for a joint plan if product form exceeds the gap `PRODUCT_GAP`: it takes
minutes."""

PRODUCT_GAP = 5e-2
"""Largest gap of product form without a requested gap: several views of several attributes can exceed it."""

LEVEL_REASON = "With noise scales by level or by class of place, no smaller gap may be possible."
"""The reason against a smaller gap of a plan by levels."""

PRODUCT_BITS = (16, 13, 10, 8)
"""Bits of the factors of a product, tried until the exact sampler can draw the noise: entries multiply."""

BITS = (20, 24, 28, 32, 36)
"""Bits of the integer strategy, tried until rounding takes no more than its part of the gap. b bits cost about 3·2⁻ᵇ to
7·2⁻ᵇ of Δ², so bits that would cost more than the gap are skipped."""


def _by_sector(request: Publication, effort: SearchOptions) -> TablePart:
    """Find the Gaussian noise on sectors that meets every target at the least privacy cost, with proof.

    Returns:
        A plan whose integer strategy meets all targets. Under a budget, it meets the targets times one common factor.
        For the total-error objective, the total meets its target.

    Raises:
        GapNotReached: The certified gap exceeds the requested gap.
        CapExceeded: The plan costs more than the cap.
        WorkloadError, SpecError: The request cannot be planned.
        PlanError: Exact 64-bit noise cannot meet the targets, they cost nothing or more than all limits, or the device
            does not exist. It is also raised if `refine` is not possible for this request.

    **Guarantees**
        * The planner reads no data.
        * Every variance, recomputed from the integers, is at most its target, in the sense of Returns.
        * The cost is computed from the integers, and the bound from the problem. Neither comes from the solver.

    **Source.** Problems 1 and 2, section 3; the solver and the certificate are this project's.
    """
    gap, publication, refine = _required_gap(request, effort), request, effort.refine
    if publication.public is None and publication.adjacency.fixes_size:
        raise SpecError(
            "number-of-records-missing",
            "The neighbours are replace-one, so the number of records is not protected, and no public total gives it.",
            "Tables need that number. fitnoise does not measure it, because its answers would show it without noise.",
            "Add [[public]] with by = [], its source, and origin = 'these data' if you count the records yourself; or "
            "set add-or-remove-one neighbours.",
            "No plan was made.",
            place="privacy.neighbours",
        )
    refuse_endless(publication)
    refuse_wide(publication)
    goal = DEFAULT_GAP if gap is None else gap
    decomposition = in_time(publication, sectors_of(publication))
    objective = terms(publication, decomposition)
    # The number of all records has no centres to move: two records that replace each other have the same one.
    moves_centres = decomposition.has_centres and (publication.adjacency.by_cell or bool(publication.unit.within))
    if refine and publication.adjacency.pattern:
        raise PlanError(
            "refine-with-pattern",
            "refine is set, and the records of one unit follow a pattern (such as once_per).",
            "Plans are refined for single records only.",
            "Leave refine out, or remove the pattern.",
            "No plan was made.",
        )

    if refine and moves_centres:
        raise PlanError(
            "refine-with-public-totals",
            "refine is set, and the plan has public totals with tables of ranges, groups or other structure.",
            "Plans with such tables are not refined.",
            "Leave refine out, or remove the public totals.",
            "No plan was made.",
        )

    def solved(record_kinds: Kinds) -> RealStrategy:
        return ideal(
            decomposition,
            objective,
            publication,
            goal=goal,
            refine=refine,
            start=effort.start,
            device=effort.device,
            max_iterations=effort.max_iterations,
            progress=effort.progress,
            record_kinds=record_kinds,
        )

    ideal_strategy = solved(SINGLE_RECORDS)
    if moves_centres:
        # The cost of two records of one public cell does not depend on its centre. If all sectors have one of its cells
        # as the centre, an added record costs no more than one that replaces a record of that cell.
        centres = _first_cells(decomposition) if publication.unit.within else ideal_strategy.cells
        bases, multiples = centred_bases(decomposition, centres)
        decomposition = sectors_of(publication, bases)
        factors = [f / x for f, x in zip(ideal_strategy.factors, multiples, strict=True)]
        ideal_strategy = replace(ideal_strategy, factors=factors)
    strategy = _rounded(decomposition, objective, ideal_strategy, publication, goal)
    strategy = claimed(strategy, publication.adjacency)
    part = TablePart(GAUSSIAN, publication, strategy, ideal_strategy.evidence, ideal_strategy.status)
    if objective.sets is not None and len(objective.sets.compatible) <= SETS_CELLS:
        aim = SETS_GAP if gap is None else goal

        def solve_sets(formulation: Formulation, start: Weights | None, gap: float) -> Solution:
            with one_thread() if decomposition.cells <= ONE_THREAD else contextlib.nullcontext():
                return solver.solve(
                    formulation.problem,
                    start=start,
                    gap=gap,
                    max_iterations=effort.max_iterations,
                    progress=effort.progress,
                )

        part = _in_sets(decomposition, objective, publication, part, aim, solve_sets)
    elif objective.distinct is not None and objective.distinct.max_records > 1:
        part = _plan_record_sets(decomposition, objective, publication, part, solved)
    elif publication.adjacency.pattern:
        part = replace(part, status=(*part.status, status_message("report.status.single_records")))
    refuse_pointless(part.exact_cost)
    # The solver reached the gap and rounding lost it: the report names the difference.
    if part.gap > goal and ideal_strategy.gap <= goal and not publication.adjacency.pattern:
        part = replace(part, status=(*part.status, status_message("report.status.solver_gap")))
    return _check_gap_and_cap(part, gap, allowance(decomposition), ", allow more iterations")


def _first_cells(decomposition: Decomposition) -> Floats:
    """Return 1 for the first structured cell of each public cell, and 0 for the others, (n_o,)."""
    out = np.zeros(decomposition.cells)
    if decomposition.public is not None:
        out[np.unique(decomposition.public.places, return_index=True)[1]] = 1
    return out


def _plan_record_sets(
    decomposition: Decomposition,
    terms: ObjectiveTerms,
    publication: Publication,
    part: TablePart,
    solved: Callable[[Kinds], RealStrategy],
) -> TablePart:
    """Return the strategy of least charge among optima for sets of records of one unit, with the best bound of all.

    The sets are m records in m cells of the attributes by which they differ. Their other values are all equal, or
    differ independently. A golden-section search runs over m, then over the mixture of both kinds, then over m again.
    A real m stands for a mixture of the two neighbouring integers. `part`, the plan for single records, takes part in
    the comparison, and each set has a little weight of single records. Then all kinds of sets are weighed for the best
    bound, and the plan is solved for them, at most KIND_ROUNDS times.
    """
    max_records, best, proven = (terms.distinct.max_records if terms.distinct else 1), part, part
    sections = MIXTURE_STEPS if sum(map(len, decomposition.groups)) <= MANY_SECTORS else 2
    at_least = lower_bound(decomposition, part.evidence, terms)
    charged = _achieved_value(decomposition, terms, part.strategy, publication)

    def prove(evidence: Evidence) -> float:
        nonlocal proven, at_least
        value = lower_bound(decomposition, evidence, terms)
        if value > at_least:
            at_least, proven = value, replace(part, evidence=evidence)
        return value

    def solve_for(shares: Sequence[tuple[int, bool, float]], single: float, min_gain: float) -> Evidence:
        nonlocal best, charged
        # With a record in every cell, sectors of the differing attributes would cost nothing. A little weight of single
        # records keeps their noise finite.
        solution = solved(tuple(x for x in ((1, True, single), *shares) if x[0] and x[2] > 0))
        strategy = _rounded(decomposition, terms, solution, publication, DEFAULT_GAP)
        achieved = _achieved_value(decomposition, terms, strategy, publication)
        if achieved < charged * (1 - min_gain):
            charged, best = achieved, replace(part, strategy=claimed(strategy, publication.adjacency))
        return solution.evidence

    def bound(m: float, p_equal: float) -> float:
        low = min(int(m), max_records - 1)
        numbers = {low: low + 1 - m, low + 1: m - low}
        shares = [(n, kind, w * v) for n, w in numbers.items() for kind, v in ((True, p_equal), (False, 1 - p_equal))]
        return prove(solve_for(shares, 1 / 1024, 0.0))

    # One coordinate at a time, because each point solves the complete problem.
    mean_records = _highest(lambda m: bound(m, 0.0), 1.0, float(max_records), sections)
    p_equal = _highest(lambda x: bound(mean_records, x), 0.0, 1.0, sections)
    _highest(lambda m: bound(m, p_equal), 1.0, float(max_records), sections)
    solved_rounds, evidence = 0, proven.evidence
    while terms.distinct and sections == MIXTURE_STEPS and charged > at_least * (1 + SETS_GAP):
        previous = {(m, is_equal): w for m, is_equal, w in evidence.distinct_weights}
        before, weighed = at_least, weigh_kinds(decomposition, evidence, terms, terms.distinct)
        prove(weighed)
        if solved_rounds == KIND_ROUNDS or (solved_rounds and at_least < before * (1 + MIN_KIND_GAIN)):
            break
        # Weights that rose or fell go on by as much again, which halves the number of rounds.
        ahead = [(m, e, w * w / previous.get((m, e), w)) for m, e, w in weighed.distinct_weights]
        total = sum(w for *_, w in ahead)
        evidence = solve_for([(m, e, w / total) for m, e, w in ahead], MIN_KIND_GAIN, SETS_GAP)
        prove(evidence)
        solved_rounds += 1
    outcome = status_message("report.status.best_optimum", optima=1 + 3 * sections + solved_rounds)
    return replace(best, evidence=proven.evidence, status=(outcome,))


def _in_sets(
    decomposition: Decomposition,
    terms: ObjectiveTerms,
    publication: Publication,
    part: TablePart,
    goal: float,
    solved: Solve,
) -> TablePart:
    """Return a plan for the sets of records that one unit can have, charged for the costliest of them.

    The plan is solved for some sets. Sets that then cost more than all of these are added, and the plan is solved
    again, until no such set is found. It is solved at most SETS_ROUNDS times. The plan `part` for single records keeps
    its strategy if that costs less, and its evidence if that proves more.
    """
    if terms.sets is None:
        return part
    finder, moving, start, solver_gap = CostlySets(terms.sets), CostlyMovingSets(terms.sets), None, FIRST_SETS_GAP
    free = any(any(terms.sets.free(g)) for g in decomposition.groups)
    # Without free attributes, all records of a set agree.
    ways = (True, False) if free else (True,)
    kinds: list[ValuedSet] = [
        (same, cells) for cells in finder.initial_sets() for same in ways if same or len(cells) > 1
    ]
    for rounds in itertools.count(1):
        # The plan takes the last solution, so the last round is solved to the goal.
        solver_gap = max(solver_gap, goal / 4) if rounds < SETS_ROUNDS else goal / 4
        sets = RecordSets(tuple(cells for _, cells in kinds), tuple(same for same, _ in kinds))
        form = Formulation(decomposition, terms, sets=sets)
        solution = solved(form, start, solver_gap)
        products = {f: terms.sets.signed(x) for f, x in form.products(*solution.primal).items()}
        costs = [sum(float((x[np.ix_(c, c)] * sets.agreement(i, f)).sum()) for f, x in products.items())
                 for i, (_, c) in enumerate(kinds)]  # fmt: skip
        max_cost = largest = max(costs)
        pool: list[tuple[float, ValuedSet]] = []
        # Where joint values are few, the second search covers all sets of different values.
        for way in (True,) if moving.few else ways:
            x = np.sum([x for f, x in products.items() if way or not f], axis=0)
            # Records of different values cost together only in sectors without free attributes, and each alone in all
            # sectors.
            np.fill_diagonal(x, np.sum([*products.values()], axis=0).diagonal())
            starts = [cells for same, cells in kinds if same is way]
            pool += [(value, (way, cells)) for value, cells in finder.find_costliest(x, starts, SETS_ADDED_PER_ROUND)]
        if free and moving.few:
            begin = [kinds[i] for i in np.argsort(costs)[: -STARTING_SETS - 1 : -1]]
            pool += moving.find_costliest(products, begin, SETS_ADDED_PER_ROUND)
        seen = set(kinds)
        # A smaller excess is within the gap.
        new = [one for one in dict.fromkeys(k for v, k in pool if v > largest * (1 + goal / 4)) if one not in seen]
        max_cost = max(max_cost, *(value for value, _ in pool))
        if solver_gap <= goal / 4 and (not new or rounds == SETS_ROUNDS):
            break
        solver_gap = min(solver_gap, (max_cost / largest - 1) / SETS_GAP_FACTOR) if new else 0.0
        p, q = solution.dual
        # The solver multiplies weights, so a new set needs one above 0.
        start = np.concatenate([0.9 * p, np.full(len(new), 0.1 / max(len(new), 1))]), q
        kinds += new
    evidence = form.evidence(sets, solution.dual[0], _evidence_weights(terms, form, solution.dual[1]))
    ideal = RealStrategy(form.precision_factors(*solution.primal), evidence, solution.gap, (), solution.primal[0])
    strategy = _rounded(decomposition, terms, ideal, publication, goal)
    means = [*_symmetrise(decomposition, terms, ideal, publication), *_independent(decomposition, terms, publication)]
    # All meet the targets, so the objective decides, as it is computed from the integers.
    best = min((strategy, *means, part.strategy), key=lambda x: _achieved_value(decomposition, terms, x, publication))
    # Any evidence proves a bound for every strategy, so the larger bound goes with the better strategy.
    bounds = [lower_bound(decomposition, x, terms) for x in (evidence, part.evidence)]
    sets_solved = "report.status.record_set" if len(kinds) == 1 else "report.status.record_sets"
    result = replace(
        part,
        strategy=claimed(best, publication.adjacency),
        evidence=evidence if bounds[0] > bounds[1] else part.evidence,
        status=(
            status_message(str(solution.status)),
            status_message("report.status.few_record_sets" if new else sets_solved, sets=len(kinds)),
        ),
    )
    exceeds_goal = solution.status is Status.CONVERGED and result.gap > goal
    return (
        replace(result, status=(*result.status, status_message("report.status.solver_gap"))) if exceeds_goal else result
    )


def _symmetrise(
    decomposition: Decomposition, terms: ObjectiveTerms, ideal: RealStrategy, publication: Publication
) -> Iterator[Strategy]:
    """Yield means of the strategy over exchanges of cells, one for each block length ≥ 2 that divides n, if it fits.

    The mean is that of the covariances over all exchanges of cells within a block, and of blocks. It fits if it meets
    the targets to SYMMETRY_TOLERANCE, as it does if the exchanges preserve the tables and their targets. The function
    yields nothing unless a single attribute is structured and every basis has all n dimensions.

    Cost is convex in the covariance. If the exchanges preserve the possible sets of records, the mean therefore costs
    no more. The bound by blocks (`solving.relaxations`) is then its exact charge, before rounding. The caller
    takes the strategy of least value, so that a mean that costs more does no harm.
    """
    n = decomposition.cells
    if any(len(g.basis) < n for g in decomposition.groups) or np.prod(decomposition.shape) != max(decomposition.shape):
        return
    for length in (k for k in range(2, n + 1) if n % k == 0):
        block = np.arange(n) // length
        kinds = np.where(np.eye(n, dtype=bool), 0, np.where(block[:, None] == block, 1, 2)).ravel()
        factors = []
        for f, g in zip(ideal.factors, decomposition.groups, strict=True):
            rows = f @ g.basis
            covariances = np.linalg.inv(rows.swapaxes(1, 2) @ rows).reshape(len(f), -1)
            sums = np.stack([np.bincount(kinds, x, minlength=3) for x in covariances])
            # The mean over the exchanges has three values: on the diagonal, within a block and between blocks.
            mean = (sums / np.maximum(np.bincount(kinds, minlength=3), 1))[:, kinds].reshape(-1, n, n)
            factor = np.linalg.cholesky(np.linalg.inv(mean)).swapaxes(1, 2)
            factors.append(factor @ np.linalg.inv(g.basis.astype(np.float64)))
        strategy = round_strategy(decomposition, factors, BITS[0], in_time=publication.series is not None)
        if relaxation(decomposition, terms, variances(decomposition, strategy)) <= 1 + SYMMETRY_TOLERANCE:
            yield scale_noise(decomposition, terms, strategy, publication)


def _independent(decomposition: Decomposition, terms: ObjectiveTerms, publication: Publication) -> Iterator[Strategy]:
    """Yield independent noise on each joint cell, where records are replaced.

    Its charge is proven for many periods. Yield nothing unless every basis has all dimensions.

    Source: this project; :mod:`fitnoise.solving.independent_noise`.
    """
    n, d = decomposition.cells, decomposition
    if publication.adjacency.by_cell or any(len(g.basis) < n for g in d.groups):
        return
    squares = np.zeros((len(d.variances), n))
    for x in d.tables:
        queries = x.queries if isinstance(x.queries, np.ndarray) else rules.dense(x.queries)
        squares[x.numbers] = queries**2 / x.cells[:, None, None]
    weights = None if terms.weights is None else terms.weights * d.variances
    root = np.diag(np.sqrt(independent_precisions(squares / d.variances[:, None], weights)))
    factors = [root @ np.linalg.inv(g.basis.astype(np.float64)) for g in d.groups]
    each = [np.broadcast_to(f, (len(g), n, n)) for f, g in zip(factors, d.groups, strict=True)]
    strategy = round_strategy(d, each, BITS[0], in_time=publication.series is not None)
    yield scale_noise(d, terms, strategy, publication)


def _highest(f: Callable[[float], float], low: float, high: float, places: int) -> float:
    """Return the approximate maximum point of a concave function: the best of `places` points, at least 2."""
    # With this ratio, an inner point of an interval is also one of the next interval.
    part = (5**0.5 - 1) / 2
    lower, upper = high - part * (high - low), low + part * (high - low)
    at_lower, at_upper = f(lower), f(upper)
    for _ in range(places - 2):
        if at_lower >= at_upper:
            high, upper, at_upper = upper, lower, at_lower
            lower = high - part * (high - low)
            at_lower = f(lower)
        else:
            low, lower, at_lower = lower, upper, at_upper
            upper = low + part * (high - low)
            at_upper = f(upper)
    return lower if at_lower >= at_upper else upper


def gap_not_reached(
    part: TablePart, gap: float, outcome: Sequence[Message], reason: str, alternative: str = ""
) -> GapNotReached:
    """Return the error for a plan whose certified gap is above the requested one.

    Args:
        part: Plan that would be returned without a requested gap.
        gap: Requested gap.
        outcome: The status in which the solver stopped.
        reason: Sentence that says why no smaller gap may be possible; empty where none is known.
        alternative: Further way to a smaller gap, as a part of a sentence.
    """
    ended = english(*outcome)
    return GapNotReached(
        "gap-not-reached",
        f"The requested gap is {gap:.1e}, and the certified gap of the plan is {part.gap:.1e} ({ended}).",
        reason,
        f"Request a larger gap{alternative}, or leave gap out to take the plan as it is.",
        "No plan was made.",
        place="gap",
    )


def _check_gap_and_cap(part: TablePart, gap: float | None, reason: str, alternative: str = "") -> TablePart:
    """Return the plan, or raise if it misses the requested gap or exceeds the cap."""
    if gap is not None and part.gap > gap:
        raise gap_not_reached(part, gap, part.status, reason, alternative)
    cap = part.publication.cap
    # The kernel's own comparison: it can allow a larger ρ for an (ε, δ) than `as_rho` does.
    if cap is not None and not cap.limit("cap").allows(part.loss):
        raise CapExceeded(
            "gaussian-plan-exceeds-cap",
            f"The plan costs ρ = {part.rho:.6g}, and the cap is ρ = {float(cap.gaussian_rho):.6g}.",
            _bound_sentence(part),
            f"Loosen the most expensive targets ({_costliest_tables(part)}), or raise the cap.",
            "No plan was made.",
            place="cap",
        )
    return part


def _by_level(
    publication: Publication, goal: float, enough: float, *, refine: bool, mechanism: TableMechanism | None = None
) -> TablePart:
    """Return the plan of tables by levels of a tree.

    goal: The gap that the search for the bound and for scales by class aims at.
    enough: The gap above which scales by class of place are tried too. If targets vary by place, and records follow no
        pattern, only scales by class are tried.
    refine: True raises PlanError, since such plans cannot be refined.
    mechanism: LEVELS or PLACES to try only one scale for each level and margin, or only scales by class of place.
    """
    if refine:
        raise PlanError(
            "refine-by-level",
            "refine is set, and the levels have different numbers of places.",
            "Such levels have one noise scale each, so every record already has the same cost.",
            "Leave refine out.",
            "No plan was made.",
        )
    decomposition = decompose(publication.workload, by_level=True)
    level_problem = problem(publication, decomposition)
    refuse_endless_classes(level_problem)
    classes = sum(len(x) for sector in level_problem.sectors for x in level_problem.tree.counts[: sector.deep + 1])
    # The bound comes first: the scales are then solved for the kinds of records in its evidence.
    start = trees.ascend(level_problem, goal / 20, min(LEVEL_ITERATIONS, max(20, LEVEL_WORK // classes)))
    evidence = start
    if level_problem.replaced:
        with one_thread():
            evidence = meeting_pairs.ascend(level_problem, start)
    has_equal_places = all((x == 1).all() for x in level_problem.looser) or bool(publication.adjacency.pattern)
    part = weights = None
    if mechanism is LEVELS and not has_equal_places:
        raise PlanError(
            "levels-with-varying-targets",
            f"The mechanism is {LEVELS.name!r}, and the targets of a level vary by place.",
            "It has one noise scale for each level and margin.",
            f"Name {PLACES.name!r}, leave mechanism out, or give each level one target.",
            "No plan was made.",
            place="mechanism",
        )
    if has_equal_places and mechanism is not PLACES:
        mixed = level_problem.mixed(start.kinds)
        weights = trees.solve(mixed)
        factors = [x[:, None, None] for x in trees.factors(mixed, decomposition, weights)]
        strategy = round_strategy(decomposition, factors, BITS[0])
        achieved = LevelEstimation(level_problem, strategy, decomposition).variances
        strategy = scale_noise(decomposition, terms(publication, decomposition), strategy, publication, achieved)
        outcome = (status_message("report.status.level_scales"), status_message("report.status.bound_for_all"))
        part = TablePart(LEVELS, publication, strategy, evidence, outcome)
        refuse_pointless(part.exact_cost)
    if part is None or (mechanism is None and part.gap > enough and not publication.adjacency.pattern):
        max_gap = (
            CLASS_SCALES_GAP
            if sum(map(len, level_problem.tree.counts)) <= MANY_CLASSES
            else max(CLASS_SCALES_GAP, CLASS_SCALES_GAP_SHARE * goal)
        )
        by_class = _by_place(publication, level_problem, decomposition, start, evidence, weights, max_gap)
        part = (
            by_class
            if part is None or by_class.objective_value < part.objective_value * part.relaxation / by_class.relaxation
            else part
        )
    refuse_pointless(part.exact_cost)
    return part


def _by_place(
    publication: Publication,
    problem: LevelProblem,
    decomposition: Decomposition,
    start: Evidence,
    evidence: Evidence,
    weights: Sequence[Floats] | None,
    target_gap: float,
) -> TablePart:
    """Return the plan of tables by levels with scales by class of place, at most the cost of noise on every number.

    start: The dual weights with which the search for scales starts.
    evidence: The dual weights that prove the bound.
    weights: One weight a level, as a start, if known.
    target_gap: Gap at which the search for better scales ends.
    """
    cells = np.sqrt(problem.relative / decomposition.variances)
    with one_thread():
        bound = (meeting_pairs.bound if problem.replaced else trees.bound)(problem, evidence)
        # Bounds mix the kinds themselves, so they must see the problem before.
        problem = problem.mixed(start.kinds)
        independent = TreeWeights.independent(problem, cells)
        begun = independent if weights is None else TreeWeights.equal_within_levels(weights, problem)
        best = weighted_trees.solve(problem, start, begun, gap=target_gap, bound=bound)
    records, strategies = publication.source.max_records, list[TreeStrategy]()
    # Rounding can cost the better weights more than even noise on every number, so both are tried.
    for x in (best, independent):
        strategy = by_place.rounded(problem, decomposition, x, records, publication.unit.parts)
        estimation = PlaceEstimation(problem, strategy, decomposition)
        strategies.append(_scaled(publication, estimation, by_place.rescaled))
    outcome = (status_message("report.status.place_scales"), status_message("report.status.bound_for_all"))
    return min(
        (TablePart(PLACES, publication, x, evidence, outcome) for x in strategies),
        key=lambda x: x.objective_value * x.relaxation,
    )


def _by_axis(publication: Publication, *, refine: bool, progress: Callable[[int, float], None] | None) -> TablePart:
    """Return the plan of tables with many joint cells of several structured attributes, in product form."""
    if refine:
        raise PlanError(
            "refine-in-product-form",
            "refine is set, and the plan is in product form.",
            "Product form counts every record at the cost of the costliest one.",
            "Leave refine out, or publish tables of fewer joint cells.",
            "No plan was made.",
        )
    decomposition = decompose_by_axis(publication.workload)
    # The same problem gives both forms and the proof, so that their gaps compare.
    product_problem = by_axis(publication, decomposition)
    steps = itertools.count(1)

    def report(value: float, proven: float) -> None:
        if progress is not None:
            progress(next(steps), value / proven - 1)

    with one_thread():
        form, weights = solve(product_problem, report_progress=report)
        evidence = cores.raised(product_problem, weights)
        joint = (
            joint_bases.solve(product_problem, evidence, form) if joint_bases.is_supported(product_problem) else None
        )
    outcome = [status_message("report.status.bound_for_all")]
    if publication.unit.neighbours is Neighbours.REPLACE_ONE:
        outcome.append(status_message("report.status.planned_for_presence"))
    strategy = _in_integers(publication, product_problem, decomposition, form)
    in_form = status_message("report.status.product_matrices")
    part = TablePart(PRODUCTS, publication, strategy, evidence, (in_form, *outcome))
    # A joint form that cannot be rounded or inverted is no loss: the product form stays.
    if joint is not None:
        with contextlib.suppress(PlanError, SingularStrategy):
            strategy = _in_integers(publication, product_problem, decomposition, joint)
            strategy = claimed(strategy, publication.adjacency)
            in_form = status_message("report.status.product_bases")
            other = TablePart(PRODUCTS, publication, strategy, evidence, (in_form, *outcome))
            part = min(part, other, key=lambda x: x.objective_value * x.relaxation)
    refuse_pointless(part.exact_cost)
    return part


def _in_integers(
    publication: Publication,
    problem: ProductProblem,
    d: Decomposition,
    product_strategy: RealProductStrategy | RealJointStrategy,
) -> ProductStrategy:
    """Return the integers of a form, with the most bits that the sampler can draw."""
    for bits in PRODUCT_BITS[:-1]:
        with contextlib.suppress(PlanError, SingularStrategy):
            return _of_axes(publication, problem, d, product_strategy, bits)
    return _of_axes(publication, problem, d, product_strategy, PRODUCT_BITS[-1])


def _of_axes(
    publication: Publication,
    problem: ProductProblem,
    d: Decomposition,
    product_strategy: RealProductStrategy | RealJointStrategy,
    bits: int,
) -> ProductStrategy:
    """Return the integers of a form, scaled to targets or a budget."""
    strategy = rounded(problem, d, product_strategy, bits)
    return _scaled(publication, ProductEstimation(problem, strategy, d), rescaled)


def _scaled(publication: Publication, estimation: PlaceEstimation | ProductEstimation, rescaled: Callable[..., S]) -> S:
    """Return the strategy of a block design, scaled to targets or a budget."""
    strategy, d = cast(S, estimation.strategy), estimation.decomposition
    if publication.budget is not None:
        return _spent(publication, strategy, publication.budget.gaussian_rho, rescaled)
    ratio = relaxation(d, terms(publication, d), estimation.variances)
    return rescaled(strategy, ratio**-0.5 * (1 - 1e-12), up=False)


def allowance(decomposition: Decomposition) -> str:
    """Return the sentence on the reason against a smaller gap; an empty string if no reason is known."""
    if all(x.row_shift is None for x in decomposition.tables):
        return ""
    return "The queries are real numbers of deficient rank, answered to 26 bits, and the gap includes this error."


def _required_gap(request: Publication, effort: SearchOptions) -> float | None:
    """Return the gap that a plan must certify, or None. Raise PlanError if the effort has a time limit."""
    if effort.seconds is not None:
        raise PlanError(
            "seconds-with-gaussian-noise",
            "seconds is set, and the noise is Gaussian.",
            "seconds limits the search for plans with Laplace noise.",
            "Leave seconds out, or request a larger gap.",
            "No plan was made.",
        )
    return request.gap if effort.gap is None else effort.gap


@final
class SectorPlanner(Planner):
    """The planner of Gaussian noise on sectors."""

    mechanism = GAUSSIAN
    takes_public_totals = True
    takes_classes = True

    def plan(self, request: Publication, effort: SearchOptions) -> TablePart:
        """Return the part of least cost for these tables."""
        return _by_sector(request, effort)


class LevelPlanner(Planner):
    """The planner of one noise scale for each level and margin."""

    mechanism = LEVELS

    def supports(self, request: Publication) -> Message | None:
        """Return the reason against levels, or None; a series needs noise by sectors, whose rows follow the time."""
        series = None if request.series is None else Message("report.unsuitable.series")
        return super().supports(request) or series or level_obstacle(request)

    def plan(self, request: Publication, effort: SearchOptions) -> TablePart:
        """Return the part by levels, or by classes of places."""
        gap = _required_gap(request, effort)
        aim = LEVEL_GAP if gap is None else gap
        part = _by_level(request, aim, math.inf, refine=effort.refine, mechanism=self.mechanism)
        return _check_gap_and_cap(part, gap, LEVEL_REASON)

    def plan_if_preferred(self, request: Publication, effort: SearchOptions) -> TablePart | None:
        """Return the part by levels or places if there are too many places for sectors, or its gap is small enough."""
        many, gap = deepest_level_size(request), _required_gap(request, effort)
        # Only a joint plan can be refined, so `refine` waits for the slower one.
        if many <= (MAX_DENSE_LEAVES_SLOW if effort.refine else MAX_DENSE_LEAVES):
            return None
        aim, enough = (LEVEL_GAP, SIMPLE_LEVELS_GAP) if gap is None else (gap, gap)
        part = _by_level(request, aim, enough, refine=effort.refine)
        gap_limit = REPLACED_GAP if request.unit.neighbours is Neighbours.REPLACE_ONE else 1.5 * LEVEL_GAP
        if many <= MAX_DENSE_LEAVES_SLOW and part.gap > (gap_limit if gap is None else gap):
            return None
        return _check_gap_and_cap(part, gap, LEVEL_REASON)


@final
class PlacePlanner(LevelPlanner):
    """The planner of noise scales by class of place."""

    mechanism = PLACES

    def supports(self, request: Publication) -> Message | None:
        """Return the reason against scales by class of place, or None."""
        pattern = Message("report.unsuitable.pattern") if request.adjacency.pattern else None
        return super().supports(request) or pattern

    def plan_if_preferred(self, request: Publication, effort: SearchOptions) -> TablePart | None:
        """Return None: the search of :class:`LevelPlanner` includes scales by class of place."""
        del request, effort
        return None


@final
class ProductPlanner(Planner):
    """The planner of product form."""

    mechanism = PRODUCTS

    def supports(self, request: Publication) -> Message | None:
        """Return the reason against product form, or None."""
        series = None if request.series is None else Message("report.unsuitable.series")
        return super().supports(request) or series or obstacle(request)

    def is_dense(self, request: Publication) -> bool:
        """Return True if the joint cells are few enough for a joint plan, which needs more memory than product form."""
        return joint_cells(request) <= MAX_STRUCTURED_CELLS

    def plan(self, request: Publication, effort: SearchOptions) -> TablePart:
        """Return the part in product form."""
        gap, cells = _required_gap(request, effort), joint_cells(request)
        part = _by_axis(request, refine=effort.refine, progress=effort.progress)
        reason = f"In product form, in which {cells:,} joint cells are planned, no smaller gap may be possible."
        return _check_gap_and_cap(part, gap, reason)

    def plan_if_preferred(self, request: Publication, effort: SearchOptions) -> TablePart | None:
        """Return the part in product form if there are too many joint cells for sectors, or its gap is small enough."""
        refuse_endless(request)
        cells, replaced = joint_cells(request), request.unit.neighbours is Neighbours.REPLACE_ONE
        if cells > MAX_STRUCTURED_CELLS:
            return self.plan(request, effort)
        if effort.refine or replaced or cells <= MAX_DENSE_CELLS:
            return None
        # A joint plan is possible too, and replaces a product form that fails.
        with contextlib.suppress(WorkloadError, PlanError):
            part = self.plan(request, effort)
            if cells > MAX_DENSE_CELLS_SLOW or _required_gap(request, effort) is not None or part.gap <= PRODUCT_GAP:
                return part
        return None


@dataclass(frozen=True, eq=False)
class RealStrategy:
    """The result of the solver.

    factors: For each group, F_S with F_SᵀF_S = Σ_S⁻¹ in the integer bases, (K, k, k).
    evidence: The dual weights, which prove the bound.
    gap: The relative gap of the search, before it is refined and rounded to integers.
    status: Messages on the end of the search.
    cells: The primal weights of cells, pairs or sets.
    """

    factors: list[Floats]
    evidence: Evidence
    gap: float
    status: tuple[Message, ...]
    cells: Floats


def ideal(
    decomposition: Decomposition,
    terms: ObjectiveTerms,
    publication: Publication,
    goal: float,
    refine: bool = False,
    start: TablePart | None = None,
    device: str | None = None,
    max_iterations: int = 2000,
    progress: Callable[[int, float], None] | None = None,
    record_kinds: Kinds = SINGLE_RECORDS,
) -> RealStrategy:
    """Solve the convex problem of a publication: ideal factors, and weights that prove a bound to about `goal`.

    Raises:
        PlanError: `refine` is not possible for this request, or the device does not exist.
    """
    backend = NUMPY if device is None else torch_backend(device)
    pairs = None
    if publication.unit.neighbours is Neighbours.REPLACE_ONE:
        pairs = AllPairs(decomposition, terms)
    if refine and (terms.weights is not None or pairs is not None):
        raise PlanError(
            "refine-without-fit-for-use",
            "refine is set, and the goal is not fit-for-use or the neighbours are replace-one.",
            "",
            "Leave refine out, or set goal fit-for-use and add-or-remove-one neighbours.",
            "No plan was made.",
        )
    form = Formulation(decomposition, terms, pairs=pairs, record_kinds=record_kinds, backend=backend)
    with one_thread() if decomposition.cells <= ONE_THREAD else contextlib.nullcontext():
        halves, before = mirrored.halved(form.problem), _weights_of(start, form)
        solution = solver.solve(
            form.problem if halves is None else halves.problem,
            start=before if halves is None or before is None else halves.fold(before),
            # Rounding to integers may take the other half.
            gap=goal / 2,
            max_iterations=max_iterations,
            progress=progress,
        )
        solution = solution if halves is None else halves.unfold_solution(solution)
    p, q = solution.dual
    weights = _evidence_weights(terms, form, q)
    evidence = Evidence(p, weights, distinct_weights=record_kinds) if pairs is None else pairs.evidence(p, weights)
    personal = terms.relative is not None and terms.weights is None  # otherwise the charge would not be unique
    outcome = [status_message(str(solution.status))]
    if refine or (personal and lexicographic.affordable(form.problem)):
        try:
            refined = lexicographic.refine(form.problem, solution, progress=progress)
            outcome.append(refined.status)
            factors = form.in_basis(refined.factors)
            return RealStrategy(factors, evidence, solution.gap, tuple(outcome), solution.primal[0])
        except PlanError:
            if refine:
                raise
            outcome.append(status_message("report.status.not_refined"))
    if pairs is not None and not pairs.complete:
        outcome.append(status_message("report.status.some_pairs"))
    factors = form.precision_factors(*solution.primal)
    return RealStrategy(factors, evidence, solution.gap, tuple(outcome), solution.primal[0])


def _evidence_weights(terms: ObjectiveTerms, formulation: Formulation, q: Floats) -> Floats:
    """Return the weights of numbers for the evidence: an empty array for total error."""
    return formulation.unfold(q) if terms.weights is None or terms.trade is not None else q[:0]


def _weights_of(plan: TablePart | None, formulation: Formulation) -> tuple[Floats, Floats] | None:
    """Return the start weights of a plan, or None if they do not fit this problem."""
    if plan is None or plan.evidence.pairs is not None:
        return None
    p, q = plan.evidence.cells, plan.evidence.numbers
    if not q.size:  # total error has one constraint, whose weight is fixed
        q = np.ones(1)
    elif q.shape == formulation.partition.number.shape:
        q = formulation.fold(q)
    fits = p.shape == (formulation.problem.cells,) and q.shape == (formulation.problem.constraints,)
    return (p, q) if fits else None


def _rounded(
    decomposition: Decomposition, terms: ObjectiveTerms, ideal: RealStrategy, publication: Publication, goal: float
) -> Strategy:
    """Return the integer strategy of the fewest bits that reaches at most 1 + goal times the bound, or of most bits.

    If records of one unit follow a pattern, return the first strategy that is not singular.

    Raises:
        PlanError: All strategies are singular, or the noise is outside the range of the exact sampler or above a
            budget.
    """
    bound = lower_bound(decomposition, ideal.evidence, terms)
    strategy: Strategy | None = None
    for bits in [b for b in BITS[:-1] if 2.0**-b <= goal / 3] + [BITS[-1]]:
        try:
            series = publication.series is not None
            integers = round_strategy(decomposition, ideal.factors, bits, in_time=series)
            strategy = scale_noise(decomposition, terms, integers, publication)
            achieved = _achieved_value(decomposition, terms, strategy, publication)
        except SingularStrategy:
            continue  # too few bits for the smallest direction
        if achieved <= bound * (1 + goal) or publication.adjacency.pattern:
            break
    if strategy is None:
        raise PlanError(
            "targets-too-different-to-round",
            f"The targets differ too much in size for an integer strategy of {BITS[-1]} bits.",
            "",
            "Bring the tightest and the loosest target closer to each other.",
            "Nothing was planned.",
        )
    return strategy


def _achieved_value(
    decomposition: Decomposition, terms: ObjectiveTerms, strategy: Strategy, publication: Publication
) -> float:
    """Return the objective of a strategy at the requested targets; 0 for a strategy without cost."""
    cost = float(_claimed_cost(publication, strategy))
    if terms.trade is None and publication.budget is None:
        return cost
    achieved = variances(decomposition, strategy)
    bought = 1.0 if publication.budget is None else relaxation(decomposition, terms, achieved)
    return (cost + traded(terms, achieved)) * bought if cost > 0 else 0.0


def scale_noise(
    decomposition: Decomposition,
    terms: ObjectiveTerms,
    strategy: Strategy,
    publication: Publication,
    achieved: Floats | None = None,
) -> Strategy:
    """Scale all noise so that the worst target holds, or the budget does, or a hybrid objective is at its minimum.

    achieved: The variances of the strategy; None computes them from its sectors.

    Raises:
        PlanError: A scale is outside the range of the exact sampler, the strategy costs nothing or it exceeds a budget.
    """
    if publication.budget is None:
        achieved = variances(decomposition, strategy) if achieved is None else achieved
        stretch = 1 / relaxation(decomposition, terms, achieved)
        error = traded(terms, achieved)
        if error > 0:
            cost = float(_claimed_cost(publication, strategy))
            # cost/t + t · error is least at this t.
            stretch = min(stretch, (cost / error) ** 0.5)
        # The root is rounded, and every target is to hold as computed.
        return rescale(strategy, stretch**0.5 * (1 - 1e-12), up=False)
    return _spent(publication, strategy, publication.budget.gaussian_rho, rescale)


def _spent(publication: Publication, strategy: S, allowed: Fraction, rescaled: Callable[..., S]) -> S:
    """Return the strategy with the noise that spends a budget, and no more."""
    spent = _claimed_cost(publication, strategy) / 2
    refuse_pointless(2 * spent)
    # The root is rounded, and a budget may not be exceeded by any amount.
    scaled = rescaled(strategy, math.sqrt(spent / allowed) * (1 + 1e-12), up=True)
    if _claimed_cost(publication, scaled) / 2 > allowed:
        raise PlanError(
            "rounding-exceeds-budget",
            "Rounding put the plan above its budget.",
            "",
            "Report this defect.",
            "No plan was made.",
        )
    return scaled


def _claimed_cost(publication: Publication, strategy: Design) -> Fraction:
    """Return the cost of a strategy with the smallest price that is found and proven (`weighted_cost`)."""
    return weighted_cost(publication, claimed(strategy, publication.adjacency))


def _bound_sentence(plan: TablePart) -> str:
    """Return the sentence on the bound on ρ, or an empty string if the bound covers more than the cost."""
    if plan.terms.relative is not None or plan.terms.trade is not None:
        return ""
    return f"No mechanism of its kind meets the targets below ρ = {plan.bound / 2:.6g}."


def _costliest_tables(plan: TablePart) -> str:
    costliest = [plan.summary(int(i)) for i in np.argsort(-plan.price_shares, kind="stable")[:2]]
    return ", ".join(f"{t.name}: {t.price:.0%} of the price" for t in costliest)
