"""Fit-for-use planning: targets in, certified integer plan out (Xiao, Ding, Wang, Zhang, Kifer, PVLDB 2021).

Prioritise accuracy (Problem 1): meet every target at the least privacy cost. Prioritise privacy (Problem 2): with a
budget, the smallest factor k with every variance ≤ k times its target; the same covariance up to a scalar (Theorem 5).
"""

from __future__ import annotations

from collections.abc import Callable

from fitnoise.errors import CapExceeded, GapNotReached, PlanError, SingularStrategy
from fitnoise.plans import Plan
from fitnoise.privacy import Neighbours, PrivacyUnit, rho
from fitnoise.problems import FitForUse
from fitnoise.publication import Budget, DataSource, Publication
from fitnoise.rounding import relaxation, rescale, round_strategy
from fitnoise.sectors import Decomposition, Floats, decompose
from fitnoise.solvers import combined
from fitnoise.strategy import Strategy
from fitnoise.workloads import Workload

DEFAULT_GAP = 1e-6
BITS = (20, 24, 28, 32, 36)
"""Bits of the integer strategy, tried in turn until rounding takes no more than its part of the gap: b bits cost about
3·2⁻ᵇ to 7·2⁻ᵇ of Δ²."""
REPLACE_ONE_STATUS = (
    "the noise is the best for add-or-remove-one neighbours, charged for replace-one; the gap is to a bound for "
    "replace-one and may be wide"
)


def plan(
    workload: Workload | Publication,
    *,
    gap: float | None = None,
    unit: PrivacyUnit | None = None,
    source: DataSource | None = None,
    delta: float = 1e-6,
    budget: Budget | None = None,
    cap: Budget | None = None,
    title: str = "",
    max_iterations: int = 2000,
    progress: Callable[[int, float], None] | None = None,
) -> Plan:
    """Find the noise that meets every target at the least privacy cost, with proof. Data-free.

    Args:
        workload: the tables and their targets; or a whole :class:`Publication`, and then nothing but `gap`,
            `max_iterations` and `progress` beside it.
        gap: relative distance cost_squared/bound − 1 that must be certified. Default: aim at 1e-6 and report what was
            reached.
        unit: who is protected; default one record, add-or-remove-one.
        source: what is publicly known of the data.
        delta: at which ε is reported by default.
        budget: spend exactly this; the targets are then relative to each other (Problem 2).
        cap: refuse a plan that costs more.
        title: shown in reports.
        max_iterations: of the solver.
        progress: called with the iteration and the relative gap so far.

    Returns:
        A plan whose integer strategy meets all targets (relaxed by one common factor under a budget).

    Raises:
        GapNotReached: the certified gap is above the one asked for.
        CapExceeded: the plan costs more than the cap.
        WorkloadError, SpecError: the request cannot be planned.
        PlanError: the targets are out of reach of exact 64-bit noise.

    **Guarantees**
        * no data are read;
        * every variance, recomputed from the integers, is at most its target;
        * the cost is computed from the integers, the bound from the problem; neither comes from the solver.

    Source: Problems 1 and 2, section 3; the solver and the certificate are ours.
    """
    if isinstance(workload, Publication):
        if any(x is not None for x in (unit, source, budget, cap)) or title or delta != 1e-6:
            raise PlanError("a Publication already says all this; change it there. Nothing was planned.")
        publication = workload
        gap = publication.gap if gap is None else gap
    else:
        publication = Publication(
            workload=workload,
            unit=unit or PrivacyUnit(),
            source=source or DataSource(),
            delta=delta,
            gap=gap,
            cap=cap,
            budget=budget,
            title=title,
        )
    goal = DEFAULT_GAP if gap is None else gap
    decomposition = decompose(publication.workload)
    problem = FitForUse(decomposition)
    solution = combined.solve(problem, gap=goal / 2, max_iterations=max_iterations, progress=progress)
    strategy = _rounded(decomposition, problem.precision_factors(*solution.primal), publication, solution.lower, goal)
    status = str(solution.status)
    if publication.unit.neighbours is Neighbours.REPLACE_ONE:
        status = f"{REPLACE_ONE_STATUS}; {status}"
    made = Plan(publication=publication, strategy=strategy, weights=solution.dual, status=status)
    if made.exact_cost == 0:
        raise PlanError(
            "replace-one neighbours protect nothing that these tables show: the number of records is public there, and "
            "so is every number asked for. Publish it without noise, or ask for add-or-remove-one. No plan was made."
        )
    if gap is not None and made.gap > gap:
        raise GapNotReached(
            f"a certified gap of {gap:.1e} was asked for; {made.gap:.1e} was reached ({made.status}). "
            "Ask for a larger gap, allow more iterations, or leave gap out to take the plan as it is. "
            "No plan was made."
        )
    limit = None if publication.cap is None else publication.cap.as_rho()
    if limit is not None and made.exact_rho > limit:
        raise CapExceeded(
            f"the plan costs ρ = {made.rho:.6g}, the cap is ρ = {float(limit):.6g}; no mechanism of its kind meets "
            f"the targets below ρ = {made.bound / 2:.6g}. Loosen the most expensive targets ({_dearest(made)}) or "
            "raise the cap. No plan was made."
        )
    return made


def _rounded(
    decomposition: Decomposition, factors: list[Floats], publication: Publication, lower: float, goal: float
) -> Strategy:
    """The integer strategy of the fewest bits that costs at most 1 + goal times the bound, or of the most bits."""
    found: Strategy | None = None
    for bits in BITS:
        try:
            found = _scaled(decomposition, round_strategy(decomposition, factors, bits), publication)
            relaxed = relaxation(decomposition, found)
        except SingularStrategy:
            continue  # too few bits for the smallest direction
        if float(max(found.profile())) * relaxed <= lower * (1 + goal):
            break
    if found is None:
        raise PlanError(
            f"the targets are too far apart for an integer strategy of {BITS[-1]} bits. "
            "Bring the tightest and the loosest closer together. Nothing was planned."
        )
    return found


def _scaled(decomposition: Decomposition, strategy: Strategy, publication: Publication) -> Strategy:
    """Scale all noise so that the worst target holds, or the budget does."""
    if publication.budget is None:
        return rescale(strategy, relaxation(decomposition, strategy) ** -0.5 * (1 - 1e-12), up=False)
    allowed = publication.budget.as_rho()
    drops = publication.source.drops
    spent = rho(strategy.unit_cost(publication.unit, drops=drops))
    scaled = rescale(strategy, float(spent / allowed) ** 0.5 * (1 + 1e-12), up=True)
    if rho(scaled.unit_cost(publication.unit, drops=drops)) > allowed:
        raise PlanError("rounding left the plan above its budget; this is a defect, please report it.")
    return scaled


def _dearest(plan: Plan) -> str:
    ranked = sorted(plan.tables, key=lambda t: -t.price)[:2]
    return ", ".join(f"{t.name}: {t.price:.0%} of the price" for t in ranked)
