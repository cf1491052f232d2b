"""The entry point of planning: the request determines the mechanism, and a choice compares both kinds of noise.

The kinds are pure ε by Laplace noise, and ρ-zCDP by Gaussian noise. The tables determine which one is more accurate at
an (ε, δ). So the choice uses no data, and the comparison is shown.
"""

from __future__ import annotations

import contextlib
import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, final

from fitnoise.display import HtmlDisplay
from fitnoise.errors import CapExceeded, PlanError, SpecError, WorkloadError
from fitnoise.kernel.losses import Loss
from fitnoise.kernel.units import DataSource, Privacy, PrivacyUnit
from fitnoise.mechanisms._base import SearchOptions
from fitnoise.mechanisms.finite.selection import ChosenMechanism, choose
from fitnoise.mechanisms.laplace import planning as matrix
from fitnoise.mechanisms.registry import plan_tables, planner_by_name
from fitnoise.mechanisms.tables import TablePart
from fitnoise.messages import Message, english
from fitnoise.planning.joint_axes import with_joint_axes
from fitnoise.planning.plan import Plan
from fitnoise.request.arguments import checked
from fitnoise.request.finite_queries import FiniteQuery
from fitnoise.request.known_totals import KnownTotals
from fitnoise.request.metadata import Metadata
from fitnoise.request.publication import Budget, CellBudgets, Goal, Objective, Publication, SmallDatabase
from fitnoise.request.translations import Translation
from fitnoise.request.workloads import Workload
from fitnoise.solving.statuses import status_message

if TYPE_CHECKING:
    import pandas as pd

_log = logging.getLogger("fitnoise.planning")


@checked(SpecError, "No plan was made.")
def plan(
    workload: Workload | Publication,
    *,
    gap: float | None = None,
    privacy: Privacy | str | None = None,
    epsilon: float | Fraction | None = None,
    unit: PrivacyUnit | None = None,
    source: DataSource | None = None,
    delta: float = 1e-6,
    budget: Budget | None = None,
    cap: Budget | None = None,
    title: str = "",
    language: str = "en",
    translations: Mapping[str, Translation] | None = None,
    objective: Objective | None = None,
    cell_budgets: CellBudgets | None = None,
    questions: Sequence[FiniteQuery] = (),
    small_database: SmallDatabase | None = None,
    other_units: Sequence[PrivacyUnit] = (),
    series: str | None = None,
    public: KnownTotals | None = None,
    mechanism: str | None = None,
    metadata: Metadata | None = None,
    refine: bool = False,
    start: Plan | None = None,
    device: str | None = None,
    max_iterations: int = 2000,
    seconds: float | None = None,
    progress: Callable[[int, float], None] | None = None,
) -> Plan:
    """Find the noise that meets every target at the least privacy cost, with proof. Data-free.

    Args:
        workload: The tables and their targets; or a complete :class:`Publication`, and then no other argument that
            describes it.
        gap: The relative distance value/bound − 1 that must be certified. The default is that of the publication.
            Without one, the solver aims at 1e-6 and reports the gap that it reaches. For Gaussian noise only: pure
            plans state their ratio to the bound, because no known strategy is near it.
        privacy: "zcdp" (default; Gaussian noise), "pure" (Laplace noise, ε without δ), or "auto". With "auto" the more
            accurate one at (epsilon, delta) is planned, or without an epsilon the one of smaller ε at delta.
        epsilon: The exact ε to spend: pure, or guaranteed at delta. A short form of a budget.
        unit: The protected unit; default one record, add-or-remove-one.
        source: The public knowledge of the data.
        delta: The δ at which ε is reported by default.
        budget: The exact budget to spend; the targets are then relative to each other (Problem 2).
        cap: The largest cost; a plan of higher cost is refused.
        title: The title in reports.
        language: The language of title, labels, names and metadata, as a tag of BCP 47.
        translations: Such texts in further languages, which reports and exports can show.
        objective: The objective to minimise; by default every target is met at the least cost.
        cell_budgets: Relative budgets of records (personal privacy).
        questions: Questions with finitely many answers, released with the tables, each for its own ε.
        small_database: The public knowledge of a small database. Plans the projection mechanism, whose answers are
            biased. Needs a budget.
        other_units: Further units. The report states the cost of each, and each has an account of its own.
        series: The attribute whose values are periods, for tables that are released period by period
            (docs/howto/release_a_series.md).
        public: Numbers of records that were public before. They are not measured (docs/howto/use_public_totals.md).
        mechanism: The name of the mechanism that answers the tables; by default fitnoise chooses.
        metadata: Statements for catalogues and archives, which the hash of the plan does not cover.
        refine: As in :class:`~fitnoise.mechanisms._base.SearchOptions`; Gaussian noise only.
        start: A plan for similar tables, whose weights are the starting point. Changes the time taken, and the result
            only within the gap. Plans that are "pure" or "auto" ignore it.
        device: The place of dense matrices: None for NumPy, otherwise a PyTorch device such as "cuda". Plans that are
            "pure" ignore it.
        max_iterations: The largest number of iterations of the solver. Only "zcdp" without a small database uses it.
        seconds: The time after which the search for a pure plan stops with the best plan so far, whose bound is proven
            all the same. That plan then depends on the machine. By default the search runs to its end.
        progress: A function, called with the iteration and the relative gap so far (for a pure plan, the least ε).

    Returns:
        A plan whose integer strategy meets all targets (relaxed by one common factor under a budget; in total, for the
        total-error objective).

    Raises:
        GapNotReached: The certified gap is above the requested gap.
        CapExceeded: The plan costs more than the cap.
        WorkloadError, SpecError: The request cannot be planned.
        SpecError, PlanError: `gap` or `refine` is given for pure or "auto" privacy.
        PlanError: The targets are out of reach of exact 64-bit noise, or the device does not exist. Or an argument does
            not apply: `seconds` to Gaussian noise, and `start`, `device`, `seconds` or `refine` to a small database. Or
            a publication is given with arguments that describe it, or a `start` with several groups of tables.

    **Guarantees**
        * planning reads no data;
        * every variance, recomputed from the integers, is at most its target, and so is every margin of a pure plan.
          Under a budget and for total error this holds as in Returns;
        * the cost is computed from the integers, the bound from the problem; neither comes from the solver.

    Source: see :mod:`fitnoise.mechanisms.gaussian.planning` and :mod:`fitnoise.mechanisms.laplace.planning`.
    """
    publication = _publication(
        workload,
        gap=gap,
        privacy=privacy,
        epsilon=epsilon,
        unit=unit,
        source=source,
        delta=delta,
        budget=budget,
        cap=cap,
        title=title or None,
        language=None if language == "en" else language,
        translations=translations,
        objective=objective,
        cell_budgets=cell_budgets,
        questions=tuple(questions) or None,
        small_database=small_database,
        other_units=tuple(other_units) or None,
        series=series,
        public=public,
        mechanism=mechanism,
        metadata=metadata,
    )
    if publication.privacy is Privacy.AUTO and publication.groups:
        if refine or gap is not None:
            raise matrix.refined_without_zcdp()
        result = compare(publication, device=device, seconds=seconds, progress=progress).plan
    else:
        effort = SearchOptions(
            gap, refine, None if start is None else start.table_part, device, max_iterations, progress, seconds
        )
        parts = [plan_tables(tables, effort) for tables in publication.groups]
        result = assembled(publication, parts, mechanisms_of(publication))
    if _log.isEnabledFor(logging.INFO):  # the hash of a plan needs its complete document
        _log.info("made plan %s", result.hash, extra={"event": "plan-made", "plan": result.hash, "rho": result.rho})
    return result


def mechanisms_of(publication: Publication) -> tuple[ChosenMechanism, ...]:
    """Return the mechanism for each question with finitely many answers, with its alternatives. Data-free.

    Raises:
        WorkloadError: A question or its prior cannot be used.
        PlanError: No mechanism exists for one of them.
    """
    domain = publication.workload.domain
    return tuple(choose(q, domain, publication.adjacency) for q in publication.questions)


def assembled(publication: Publication, parts: Sequence[TablePart], chosen: Sequence[ChosenMechanism]) -> Plan:
    """Return the plan of parts for tables, with the mechanisms of finite questions.

    Raises:
        CapExceeded: Jointly they cost more than the cap.
    """
    plan = Plan.from_parts(publication, parts, [c.mechanism for c in chosen])
    if not _is_within_cap(plan):
        tables = sum((p.loss for p in parts), Loss.zero())
        tables_text = f"The tables cost ρ = {float(tables.rho):.6g}. " if parts else ""
        raise CapExceeded(
            "questions-exceed-cap",
            f"{tables_text}The plan costs ρ = {plan.rho:.6g} with the questions, which is more than the cap.",
            "",
            "Loosen the targets of the tables, give the questions a smaller ε, or raise the cap.",
            "No plan was made.",
            place="cap",
        )
    return plan


@final
@dataclass(frozen=True)
class Alternative:
    """One way to give the privacy guarantee, found without data.

    Attributes:
        privacy: The kind of guarantee.
        family: The family of its strategies.
        epsilon: The ε at which the targets are met, or the ε of the plan under a budget. It is pure for Laplace noise,
            and guaranteed at δ for Gaussian noise.
        error: The factor by which the budget multiplies the requested margins; at most 1 without a budget.
        ratio: The objective of the plan over the proven bound for mechanisms of its kind of noise.
        noisy_answers: The number of noisy answers.
        seconds: The time of the search.
    """

    privacy: Privacy
    family: str
    epsilon: float
    error: float
    ratio: float
    noisy_answers: int
    seconds: float


@final
@dataclass(frozen=True, eq=False)
class Comparison(HtmlDisplay):
    """Both kinds of noise for one set of tables.

    Attributes:
        plan: The plan of the best alternative within the cap.
        reason: The cost of the other kind of noise, or the reason why it has no plan, as a message.
        alternatives: All alternatives, the best one first.
        gaussian: The part for Gaussian noise, also where it is not the best.
        finite: The alternatives for the mechanism of each finite question.
    """

    plan: Plan
    reason: Message
    alternatives: tuple[Alternative, ...]
    gaussian: TablePart
    finite: tuple[ChosenMechanism, ...] = ()

    @property
    def why(self) -> str:
        """The cost of the other kind of noise, in English."""
        return english(self.reason)

    @cached_property
    def total_error(self) -> float | None:
        """The total error of meeting every target: the sum of all variances over the least possible sum.

        It is for Gaussian noise, with both sums at one privacy cost. It is at least 1, except for rounding. It is
        missing (None) for every goal but fit-for-use, and if the plan of least total error cannot be made. It is also
        missing if the mechanism searches strategies of one form only, as for levels of many places and product form.
        """
        publication = self.gaussian.publication
        if publication.objective.goal is not Goal.FIT_FOR_USE or not self.gaussian.mechanism.optimal:
            return None
        request = replace(publication, objective=Objective(Goal.TOTAL_ERROR), budget=None, cap=None, gap=None)
        try:
            optimum = plan_tables(request, SearchOptions())
        except (WorkloadError, PlanError):
            return None
        error, best = (
            # Variance times cost does not depend on the noise scale, so both plans are compared at one cost.
            float(p.variances @ p.decomposition.numbers_per_row) * float(p.exact_weighted_cost)
            for p in (self.gaussian, optimum)
        )
        return error / best

    def to_frame(self) -> pd.DataFrame:
        """Return a table with one row for each alternative, the best one first."""
        # The import takes longer than a small plan.
        import pandas as pd

        return pd.DataFrame([{**vars(a), "privacy": a.privacy.value} for a in self.alternatives])


@checked(SpecError, "Nothing was compared.")
def compare(
    workload: Workload | Publication,
    *,
    epsilon: float | Fraction | None = None,
    delta: float = 1e-6,
    device: str | None = None,
    all_families: bool = False,
    seconds: float | None = None,
    progress: Callable[[int, float], None] | None = None,
) -> Comparison:
    """Plan with pure ε and with Gaussian noise, and report both results. Data-free.

    Args:
        workload: The tables and their targets, or a complete publication.
        epsilon: The ε to spend, pure or at `delta`; None compares the ε at which all targets are met.
        delta: δ of the Gaussian alternative.
        device: The device for the Gaussian alternative.
        all_families: True to try all families of pure noise, also those that cannot be the best or never were. Pure
            noise is then tried even if its proven bound is above the ε of Gaussian noise.
        seconds: The time of the search for pure noise, as in :func:`plan`.
        progress: As in :func:`plan`.

    Raises:
        PlanError: The publication is for a small database, has public totals, or does not have exactly one group of
            tables. Or a complete publication is given with an epsilon or a delta.
        SpecError: A budget or a cap is not an ε.
        CapExceeded: Every alternative costs more than the cap.
        FitnoiseError: Gaussian noise cannot be planned; the errors are those of :func:`plan`.

    **Guarantees**
        * the alternatives meet equal targets; under a budget each multiplies all margins by one factor, its `error`;
        * the plan is the best of the alternatives within the cap, if there is a cap;
        * ε of the Gaussian alternative is the guarantee of its discrete noise at δ.
    """
    publication = _publication(workload, epsilon=epsilon, delta=delta, default=Privacy.AUTO)
    if publication.small_database is not None:
        raise PlanError(
            "comparison-of-small-database",
            "The publication is for a small database.",
            "Laplace and Gaussian noise are compared for unbiased answers only.",
            "Call fn.plan instead.",
            "No plan was made.",
        )
    if publication.public is not None:
        raise PlanError(
            "comparison-with-public-totals",
            "The publication has public totals.",
            "Only Gaussian noise leaves out public totals, so there is nothing to compare.",
            "Call fn.plan instead (fitnoise plan without --compare).",
            "No plan was made.",
        )
    mechanisms = mechanisms_of(publication)
    if not publication.groups:
        raise PlanError(
            "comparison-without-tables",
            "The publication has no table.",
            "fn.compare compares Laplace and Gaussian noise for tables. fitnoise plan --compare compares mechanisms of "
            "questions.",
            "Call fn.plan, which chooses the mechanism of each question.",
            "No plan was made.",
        )
    if len(publication.groups) != 1:
        raise PlanError(
            "comparison-of-several-parts",
            f"The publication has tables in {len(publication.groups)} groups.",
            "Laplace and Gaussian noise are compared for one group.",
            "Compare the tables of each group as a separate publication.",
            "No plan was made.",
        )
    # Both kinds of noise are compared, also where the tables name a mechanism of one kind.
    request = replace(publication.groups[0], mechanism=None)
    posed = {Privacy.ZCDP: with_joint_axes(replace(request, privacy=Privacy.ZCDP)), Privacy.PURE: _pure(request)}
    begun = time.perf_counter()
    # The cap is checked at the end, where the other kind of noise may still be within it.
    effort = SearchOptions(device=device, progress=progress)
    gaussian = plan_tables(replace(posed[Privacy.ZCDP], cap=None), effort)
    took = time.perf_counter() - begun
    both = {Privacy.ZCDP: replace(gaussian, publication=posed[Privacy.ZCDP])}
    search: matrix.StrategySearch | None = None
    min_pure = math.sqrt(2 * gaussian.bound)
    # No plan with Laplace noise can have a smaller ε than this bound.
    hopeless = request.budget is request.cap is None and min_pure > gaussian.epsilon() and not all_families
    # For pure noise all places of a tree are cells.
    sought = planner_by_name(gaussian.mechanism.name).is_dense(gaussian.publication)
    if sought and not hopeless:
        # the tables are too large for the search, or the targets out of reach of its noise
        with contextlib.suppress(WorkloadError, PlanError):
            uncapped = replace(posed[Privacy.PURE], cap=None)
            search = matrix.search(uncapped, all_families=all_families, seconds=seconds, progress=progress)
            both[Privacy.PURE] = replace(search.part, publication=posed[Privacy.PURE])
    delta = request.delta if request.budget is None or request.budget.delta is None else request.budget.delta
    lines = [
        Alternative(
            Privacy.ZCDP,
            gaussian.mechanism.family,
            gaussian.epsilon(delta),
            math.sqrt(gaussian.relaxation),
            gaussian.ratio,
            gaussian.noisy_answers,
            took,
        )
    ]
    if search is not None:
        best_epsilon, error = search.candidates[0].epsilon, math.sqrt(search.part.relaxation)
        for c in search.candidates:
            epsilon = c.epsilon if request.budget is None else search.part.epsilon()
            # Errors of Laplace noise are proportional to 1/ε, so a family that needs more ε has larger errors at the
            # budget.
            factor = 1.0 if request.budget is None else c.epsilon / best_epsilon
            lines.append(Alternative(Privacy.PURE, c.family, epsilon, error * factor, c.ratio, c.answers, c.seconds))
    # At equal targets ε decides; at an equal budget the margins do.
    lines.sort(key=lambda a: a.epsilon if request.budget is None else a.error)
    chosen = next((a for a in lines if _is_within_cap(both[a.privacy])), None)
    if chosen is None:
        raise CapExceeded(
            "no-noise-within-cap",
            f"The better of Laplace and Gaussian noise needs ε = {lines[0].epsilon:.6g}, which is above the cap.",
            "",
            "Loosen the targets, or raise the cap.",
            "No plan was made.",
            place="cap",
        )
    best = both[chosen.privacy]
    other = next((a for a in lines if a.privacy is not chosen.privacy), None)
    if other is None:
        reason = status_message("report.status.pure_impossible" if sought else "report.status.pure_not_searched")
        reason = status_message("report.status.pure_least", epsilon=min_pure) if hopeless else reason
    else:
        reason = _cost_of_other(chosen, other, delta, targets=request.budget is None)
    gaussian_or_pure = replace(best, status=(*best.status, reason))
    plan = assembled(
        replace(gaussian_or_pure.publication, questions=publication.questions), [gaussian_or_pure], mechanisms
    )
    return Comparison(plan, reason, tuple(lines), gaussian, mechanisms)


def _cost_of_other(chosen: Alternative, other: Alternative, delta: float, *, targets: bool) -> Message:
    """Return the cost of the other kind of noise: its ε at equal targets, or its margins at an equal budget."""
    times = other.epsilon / chosen.epsilon if targets else other.error / chosen.error
    at_targets, at_budget, numbers = {
        Privacy.PURE: ("report.status.pure_epsilon", "report.status.pure_margins", {}),
        Privacy.ZCDP: ("report.status.gaussian_epsilon", "report.status.gaussian_margins", {"delta": delta}),
    }[other.privacy]
    return status_message(at_targets if targets else at_budget, times=times, **numbers)


def _is_within_cap(plan: Plan | TablePart) -> bool:
    """Return True if the plan costs at most its cap."""
    cap = plan.publication.cap
    return cap is None or cap.limit("cap").allows(plan.loss)


def _pure(request: Publication) -> Publication:
    """Return the publication with a pure guarantee: the ε at δ of its budget and of its cap becomes a pure ε."""
    limits = {}
    for what, limit in (("budget", request.budget), ("cap", request.cap)):
        if limit is not None and limit.epsilon is None:
            raise SpecError(
                "auto-needs-epsilon",
                f"The {what} is in rho or mu.",
                "Laplace and Gaussian noise can be compared only at an epsilon with its delta.",
                f"Set {what}.epsilon and delta, or set privacy = 'zcdp'.",
                "Nothing was planned.",
                place=what,
            )
        limits[what] = None if limit is None or limit.epsilon is None else Budget(epsilon=Fraction(limit.epsilon))
    return replace(request, privacy=Privacy.PURE, gap=None, budget=limits["budget"], cap=limits["cap"])


def _publication(
    workload: Workload | Publication,
    *,
    privacy: Privacy | str | None = None,
    epsilon: float | Fraction | None = None,
    delta: float,
    gap: float | None = None,
    default: Privacy = Privacy.ZCDP,
    **fields: Any,
) -> Publication:
    """Return the request as one publication, with joint axes. `fields`: further fields, None where one is not set."""
    fields = {name: x for name, x in fields.items() if x is not None}
    if isinstance(workload, Publication):
        if fields or privacy is not None or epsilon is not None or delta != 1e-6:
            raise PlanError(
                "publication-with-arguments",
                "A Publication and further arguments are given.",
                "A Publication already states them.",
                "Change them in the Publication.",
                "Nothing was planned.",
            )
        return with_joint_axes(workload)
    if epsilon is not None and "budget" in fields:
        raise SpecError(
            "epsilon-and-budget",
            "epsilon and budget are both given.",
            "epsilon is a short form of a budget.",
            "Give one of the two.",
            "Nothing was planned.",
            place="epsilon",
        )
    try:
        promised = default if privacy is None else Privacy(privacy)
    except ValueError:
        raise SpecError(
            "unknown-privacy",
            f"privacy is {privacy!r}.",
            "",
            "Set privacy to 'zcdp', 'pure' or 'auto'.",
            "Nothing was planned.",
            place="privacy",
        ) from None
    if epsilon is not None:
        pure = promised is Privacy.PURE
        fields["budget"] = Budget(epsilon=epsilon) if pure else Budget(epsilon=float(epsilon), delta=delta)
    return with_joint_axes(Publication(workload=workload, delta=delta, gap=gap, privacy=promised, **fields))
