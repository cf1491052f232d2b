"""The front door of planning: what is asked decides which mechanism plans it, and a choice is made by comparing both.

Pure ε by Laplace noise, or ρ-zCDP by Gaussian noise: which one is more accurate at the same (ε, δ) depends on the
tables alone, so it is decided without data, and the comparison is shown.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, final

from fitnoise.errors import CapExceeded, PlanError, SpecError, WorkloadError
from fitnoise.kernel.arguments import checked
from fitnoise.kernel.designs.questions import FiniteQuery
from fitnoise.kernel.losses import Loss
from fitnoise.kernel.units import DataSource, Privacy, PrivacyUnit
from fitnoise.mechanisms._base import Effort
from fitnoise.mechanisms.finite.choosing import Made, choose
from fitnoise.mechanisms.gaussian import planning as fit_for_use
from fitnoise.mechanisms.laplace import planning as matrix
from fitnoise.mechanisms.registry import mechanism_for
from fitnoise.mechanisms.tables import TablePart
from fitnoise.planning.plan import Plan
from fitnoise.reporting import Displayed
from fitnoise.request.publication import Budget, CellBudgets, Goal, Objective, Publication, SmallDatabase
from fitnoise.request.workloads import Workload

if TYPE_CHECKING:
    import pandas as pd


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
    objective: Objective | None = None,
    cell_budgets: CellBudgets | None = None,
    finite: Sequence[FiniteQuery] = (),
    small: SmallDatabase | None = None,
    other_units: Sequence[PrivacyUnit] = (),
    series: str | None = None,
    refine: bool = False,
    start: Plan | None = None,
    device: str | None = None,
    max_iterations: int = 2000,
    seconds: float | None = None,
    progress: Callable[[int, float], None] | None = None,
) -> Plan:
    """Find the noise that meets every target at the least privacy cost, with proof. Data-free.

    Args:
        workload: the tables and their targets; or a whole :class:`Publication`, and then nothing that it says beside
            it.
        gap: relative distance value/bound − 1 that must be certified. Default: aim at 1e-6 and report what was reached.
            Gaussian noise only: pure plans state their ratio to the bound, which no strategy known is near to.
        privacy: "zcdp" (default; Gaussian noise), "pure" (Laplace noise, ε without δ), or "auto": the one that is more
            accurate at (epsilon, delta), or without an epsilon the one that needs the smaller ε at delta.
        epsilon: spend exactly this ε: pure, or guaranteed at delta. Short for a budget.
        unit: who is protected; default one record, add-or-remove-one.
        source: what is publicly known of the data.
        delta: at which ε is reported by default.
        budget: spend exactly this; the targets are then relative to each other (Problem 2).
        cap: refuse a plan that costs more.
        title: shown in reports.
        objective: what is minimised; default every target at the least cost.
        cell_budgets: relative budgets of records (personal privacy).
        finite: questions with finitely many answers, to be released beside the tables, each for its own ε.
        small: what is known of a small database: plan the projection mechanism, whose answers are biased. Needs a
            budget.
        other_units: further units, each told what it pays and charged on an account of its own.
        series: the attribute whose values are periods, where tables are released period by period (docs/series.md).
        refine: as :func:`fit_for_use.plan`; Gaussian noise only.
        start: a plan for tables like these, whose weights to start from. Changes the time taken, not the result.
        device: where dense matrices live: None for NumPy, otherwise a PyTorch device such as "cuda".
        max_iterations: of the solver.
        seconds: after which the search for a pure plan is left with the best found so far, whose bound is proven as
            ever; what is found then depends on the machine. Default: it goes to its end.
        progress: called with the iteration and the relative gap so far (of a pure plan, the least ε).

    Returns:
        A plan whose integer strategy meets all targets (relaxed by one common factor under a budget; in total, for the
        total-error objective).

    Raises:
        GapNotReached: the certified gap is above the one asked for.
        CapExceeded: the plan costs more than the cap.
        WorkloadError, SpecError: the request cannot be planned.
        PlanError: the targets are out of reach of exact 64-bit noise, or the device is not there.

    **Guarantees**
        * no data are read;
        * every variance, recomputed from the integers, is at most its target, and so is every margin of a pure plan;
        * the cost is computed from the integers, the bound from the problem; neither comes from the solver.

    Source: :mod:`fit_for_use` and :mod:`matrix`.
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
        objective=objective,
        cell_budgets=cell_budgets,
        finite=tuple(finite) or None,
        small=small,
        other_units=tuple(other_units) or None,
        series=series,
    )
    if publication.privacy is Privacy.AUTO and publication.groups:
        if refine or gap is not None:
            raise matrix.refined_without_zcdp()
        return compare(publication, device=device, seconds=seconds, progress=progress).plan
    effort = Effort(gap, refine, None if start is None else start.only, device, max_iterations, progress, seconds)
    parts = [mechanism_for(tables).plan(tables, effort) for tables in publication.groups]
    return assembled(publication, parts, mechanisms_of(publication))


def mechanisms_of(publication: Publication) -> tuple[Made, ...]:
    """The mechanism for each question with finitely many answers, with what it was chosen from. Data-free.

    Raises:
        WorkloadError: a question, or its prior, that cannot be used.
        PlanError: no mechanism could be made for one of them.
    """
    domain = publication.workload.domain
    return tuple(choose(q, domain, publication.adjacency) for q in publication.finite)


def assembled(publication: Publication, parts: Sequence[TablePart], chosen: Sequence[Made]) -> Plan:
    """The plan of parts for tables, with the mechanisms of finite questions beside them.

    Raises:
        CapExceeded: together they cost more than the cap.
    """
    made = Plan.of(publication, parts, [c.mechanism for c in chosen])
    if not _fits(made):
        tables = sum((p.loss for p in parts), Loss.nothing())
        own = f"The tables cost ρ = {float(tables.rho):.6g}. " if parts else ""
        raise CapExceeded(
            "questions-exceed-cap",
            f"{own}The plan costs ρ = {made.rho:.6g} with the questions, which is more than the cap.",
            "",
            "Loosen the targets of the tables, give the questions a smaller ε, or raise the cap.",
            "No plan was made.",
            place="cap",
        )
    return made


@final
@dataclass(frozen=True)
class Alternative:
    """One way of keeping the promise, found without data.

    Attributes:
        privacy: what it promises.
        family: its strategies.
        epsilon: needed for the targets: pure, or guaranteed at δ.
        error: by what the margins asked for have to be multiplied at the budget; at most 1 without one.
        ratio: value over the proven bound of its own kind.
        answers: noisy ones.
        seconds: to find it.
    """

    privacy: Privacy
    family: str
    epsilon: float
    error: float
    ratio: float
    answers: int
    seconds: float


@final
@dataclass(frozen=True, eq=False)
class Comparison(Displayed):
    """Both kinds of noise for the same tables.

    Attributes:
        plan: of the best.
        why: what the other kind of noise would take.
        alternatives: best first.
        gaussian: the part for Gaussian noise, whether it is the best or not.
        finite: what the mechanism of each finite question was chosen from.
    """

    plan: Plan
    why: str
    alternatives: tuple[Alternative, ...]
    gaussian: TablePart
    finite: tuple[Made, ...] = ()

    @cached_property
    def total_error(self) -> float | None:
        """What meeting every target costs in total error: the sum of all variances over the least there is.

        Of Gaussian noise, both at one privacy cost. At least 1, but for rounding; None where total error is what is
        minimised, or where the plan of least total error cannot be made, or not in time: levels of many places, and
        product form.
        """
        publication = self.gaussian.publication
        if publication.objective.goal is not Goal.FIT_FOR_USE or not self.gaussian.mechanism.optimal:
            return None
        asked = replace(publication, objective=Objective(Goal.TOTAL_ERROR), budget=None, cap=None, gap=None)
        try:
            least = fit_for_use.plan(asked)
        except (WorkloadError, PlanError):
            return None
        own, best = (
            float(p.variances @ p.decomposition.counted) * float(p.exact_weighted_cost) for p in (self.gaussian, least)
        )
        return own / best

    def to_frame(self) -> pd.DataFrame:
        """A line for each alternative, best first."""
        import pandas as pd  # takes longer than a small plan

        return pd.DataFrame([{**vars(a), "privacy": a.privacy.value} for a in self.alternatives])


@checked(SpecError, "Nothing was compared.")
def compare(
    workload: Workload | Publication,
    *,
    epsilon: float | Fraction | None = None,
    delta: float = 1e-6,
    device: str | None = None,
    every: bool = False,
    seconds: float | None = None,
    progress: Callable[[int, float], None] | None = None,
) -> Comparison:
    """Plan with pure ε and with Gaussian noise, and say what each would give. Data-free.

    Args:
        workload: the tables and their targets, or a whole publication.
        epsilon: the ε to spend, pure or at `delta`; None compares the ε at which all targets are met.
        delta: of the Gaussian alternative.
        device: for it.
        every: try all families of pure noise, also those that cannot win or never did; and pure noise at all where its
            proven bound is above the ε of Gaussian noise.
        seconds: for the search for pure noise, as for :func:`plan`.
        progress: as for :func:`plan`.

    Raises:
        As :func:`plan`, where neither can be planned.

    **Guarantees**
        * the alternatives meet the same targets, up to one factor for all of them under a budget;
        * the plan is the best of those within the cap, when there is one;
        * ε of the Gaussian alternative is what its discrete noise guarantees at δ.
    """
    whole = _publication(workload, epsilon=epsilon, delta=delta, default=Privacy.AUTO)
    if whole.small is not None:
        raise PlanError(
            "comparison-of-small-database",
            "The publication is for a small database.",
            "Laplace and Gaussian noise are compared for unbiased answers only.",
            "Call fn.plan instead.",
            "No plan was made.",
        )
    made = mechanisms_of(whole)
    if not whole.groups:
        raise PlanError(
            "comparison-without-tables",
            "The publication has no table.",
            "Laplace and Gaussian noise are compared for tables; fitnoise compare shows the mechanisms of questions.",
            "Call fn.plan, which chooses the mechanism of each question.",
            "No plan was made.",
        )
    if len(whole.groups) != 1:
        raise PlanError(
            "comparison-of-several-parts",
            f"The publication has tables in {len(whole.groups)} groups.",
            "Laplace and Gaussian noise are compared for one group.",
            "Compare the tables of each group as a separate publication.",
            "No plan was made.",
        )
    (asked,) = whole.groups
    posed = {Privacy.ZCDP: replace(asked, privacy=Privacy.ZCDP), Privacy.PURE: _pure(asked)}
    begun = time.perf_counter()
    gaussian = fit_for_use.plan(replace(posed[Privacy.ZCDP], cap=None), device=device, progress=progress)
    took = time.perf_counter() - begun
    both = {Privacy.ZCDP: replace(gaussian, publication=posed[Privacy.ZCDP])}
    found: matrix.Search | None = None
    least_pure = math.sqrt(2 * gaussian.bound)
    hopeless = asked.budget is asked.cap is None and least_pure > gaussian.epsilon() and not every
    sought = gaussian.mechanism.in_full(gaussian.publication)  # all of a tree's places are cells to pure noise
    if sought and not hopeless:
        with contextlib.suppress(WorkloadError, PlanError):  # too large for the search, or out of reach of its noise
            wanted = replace(posed[Privacy.PURE], cap=None)
            found = matrix.search(wanted, every=every, seconds=seconds, progress=progress)
            both[Privacy.PURE] = replace(found.part, publication=posed[Privacy.PURE])
    delta = asked.delta if asked.budget is None or asked.budget.delta is None else asked.budget.delta
    lines = [
        Alternative(
            Privacy.ZCDP,
            gaussian.mechanism.family,
            gaussian.epsilon(delta),
            math.sqrt(gaussian.relaxation),
            gaussian.ratio,
            gaussian.answers,
            took,
        )
    ]
    if found is not None:
        least, error = found.candidates[0].epsilon, math.sqrt(found.part.relaxation)
        for c in found.candidates:
            epsilon = c.epsilon if asked.budget is None else found.part.epsilon()
            more = 1.0 if asked.budget is None else c.epsilon / least
            lines.append(Alternative(Privacy.PURE, c.family, epsilon, error * more, c.ratio, c.answers, c.seconds))
    lines.sort(key=lambda a: a.epsilon if asked.budget is None else a.error)
    chosen = next((a for a in lines if _fits(both[a.privacy])), None)
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
        cannot = "cannot be planned" if sought else "was not looked for: there are many places, or joint cells"
        why = f"pure noise takes epsilon = {least_pure:.4g} at least" if hopeless else f"pure noise {cannot}"
    else:
        words = _CALLED[other.privacy].format(delta=delta)
        share = other.epsilon / chosen.epsilon if asked.budget is None else other.error / chosen.error
        why = f"{words} would take {share:.4g} times the {'epsilon' if asked.budget is None else 'margins'}"
    told = replace(best, status=f"{best.status}; {why}")
    plan = assembled(replace(told.publication, finite=whole.finite), [told], made)
    return Comparison(plan, why, tuple(lines), gaussian, made)


_CALLED = {Privacy.PURE: "pure noise", Privacy.ZCDP: "Gaussian noise at delta = {delta:g}"}


def _fits(made: Plan | TablePart) -> bool:
    """Whether the plan costs at most its cap."""
    cap = made.publication.cap
    return cap is None or cap.limit("cap").allows(made.loss)


def _pure(asked: Publication) -> Publication:
    """The same with a pure promise: an ε at δ becomes an ε."""
    limits = {}
    for what, limit in (("budget", asked.budget), ("cap", asked.cap)):
        if limit is not None and limit.epsilon is None:
            raise SpecError(
                "auto-needs-epsilon",
                f"The {what} is not an epsilon with its delta.",
                "Laplace and Gaussian noise can be compared only for such a limit.",
                f"Set {what}.epsilon and delta, or set privacy.",
                "Nothing was planned.",
                place=what,
            )
        limits[what] = None if limit is None or limit.epsilon is None else Budget(epsilon=Fraction(limit.epsilon))
    return replace(asked, privacy=Privacy.PURE, gap=None, budget=limits["budget"], cap=limits["cap"])


def _publication(
    workload: Workload | Publication,
    *,
    privacy: Privacy | str | None = None,
    epsilon: float | Fraction | None = None,
    delta: float,
    gap: float | None = None,
    default: Privacy = Privacy.ZCDP,
    **said: Any,
) -> Publication:
    """What is asked, as one object; said: what else is said of it, None where it is not."""
    said = {name: x for name, x in said.items() if x is not None}
    if isinstance(workload, Publication):
        if said or privacy is not None or epsilon is not None or delta != 1e-6:
            raise PlanError(
                "publication-with-arguments",
                "A Publication and further arguments are given.",
                "A Publication already states them.",
                "Change them in the Publication.",
                "Nothing was planned.",
            )
        return workload
    if epsilon is not None and "budget" in said:
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
        said["budget"] = Budget(epsilon=epsilon) if pure else Budget(epsilon=float(epsilon), delta=delta)
    return Publication(workload=workload, delta=delta, gap=gap, privacy=promised, **said)
