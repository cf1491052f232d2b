"""Free queries: further answers that do not raise the joint cost of earlier releases on the same records.

The joint cost of releases is the largest value of their summed profiles over the joint cells. The slack of a cell is
the joint cost minus the cell's own sum: no release uses it. A further release whose profile is at most the slack in
every cell leaves the joint cost as it is. The most accurate such release is a plan with the slack as cell budgets.

Source: fit-for-use (Xiao et al. 2021), section 5.3; the composition of profiles cell by cell is from this project.

Trust: a mistake here can make a release look free that raises the cost of some records.
"""

from __future__ import annotations

import math
import reprlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import final

import numpy as np
from numpy.typing import NDArray

from fitnoise.algebra import rules
from fitnoise.errors import PlanError, SpecError
from fitnoise.kernel.domain import JOINED, axis_key
from fitnoise.kernel.profiles import ChargedPlan, Profile, joint
from fitnoise.kernel.units import MAX_RECORDS, DataSource, Neighbours
from fitnoise.planning.comparison import plan as make_plan
from fitnoise.planning.plan import Plan
from fitnoise.request.arguments import checked
from fitnoise.request.publication import Budget, CellBudgets, Publication, aligned
from fitnoise.request.workloads import Family, Workload
from fitnoise.solving.sectors import MAX_STRUCTURED_CELLS

# Such a slack allows only answers of a hundred times the noise: the variance grows as one over the slack.
MIN_SLACK_FRACTION = 1e-4
"""The part of the joint cost up to which slack counts as 0."""

# The ledger rounds each profile up to multiples of 2⁻⁶⁴, so a stored profile exceeds that of its plan.
RESERVED_SLACK = Fraction(1, 2**56)
"""The amount of ρ subtracted from every cell's slack."""


@final
@dataclass(frozen=True)
class FreeValues:
    """Values of an attribute for which counts are free.

    attribute: The name of the attribute.
    values: The values whose records all cost less than the costliest record, as tables show them.
    std_errors: The standard error σ in people of a count of each value's records, if no other table is requested.
    For units of g records, σ² = g²/(2 · the least slack of the value's cells). One request may ask for all these
    counts, because no record is in two of them.
    """

    attribute: str
    values: tuple[str | int, ...]
    std_errors: tuple[float, ...]

    def __str__(self) -> str:
        return f"{self.attribute} in {reprlib.repr(list(self.values))}"


def profile_of_plan(plan: Plan) -> Profile | None:
    """Return the cost of a plan by cell, or None if fitnoise does not compute its free queries.

    It computes none for units with an id or a pattern, nor if costs are not known by cell, as under replace-one
    neighbours. It computes none for a plan that uses the slack of other plans, because that slack may be used up.
    """
    unit = plan.publication.unit
    if unit.id is not None or unit.pattern or plan.publication.composed_with:
        return None
    return plan.order.ledger_loss().profile


def free_counts(plan: Plan) -> tuple[FreeValues, ...]:
    """Return the free counts of a plan, attribute by attribute; empty where :func:`plan_free` would refuse."""
    profile = profile_of_plan(plan)
    if profile is None:
        return ()
    try:
        return _remaining_budget(plan.publication, [ChargedPlan(plan.hash, profile)])
    # There are too many joint cells.
    except PlanError:
        return ()


def _remaining_budget(publication: Publication, charges: list[ChargedPlan]) -> tuple[FreeValues, ...]:
    domain, (names, slack) = publication.workload.domain, _slack(publication, charges)
    cells = np.array(slack, dtype=object).reshape([domain[a].size for a in names])
    max_cost, free_values = joint([c.profile for c in charges]), []
    for i, a in enumerate(names):
        # A count over the other attributes includes each of their cells, so the least slack limits it.
        min_slack = np.asarray(np.min(cells, axis=tuple(j for j in range(len(names)) if j != i)))
        # No table counts records at the knots of an amount.
        skipped = domain[a].own_size if domain[a].steps else 0
        rows = [*zip(domain[a].values, min_slack, strict=True)][skipped:]
        free_rows = [(v, float(x)) for v, x in rows if x > MIN_SLACK_FRACTION * max_cost]
        if free_rows:
            errors = tuple(math.sqrt(publication.unit.cost_factor() / (2 * x)) for _, x in free_rows)
            free_values.append(FreeValues(a, tuple(v for v, _ in free_rows), errors))
    return tuple(free_values)


@checked(SpecError, "No plan was made.")
def plan_free(
    workload: Workload | Publication,
    composed_with: Plan | Iterable[Plan | ChargedPlan],
    *,
    gap: float | None = None,
    max_iterations: int = 2000,
    progress: Callable[[int, float], None] | None = None,
) -> Plan:
    """Plan the most accurate answers to further queries that leave the joint cost of earlier releases as it is.

    Args:
        workload: The further tables, whose targets state their relative accuracy. Or a complete publication with the
            plans' unit and source, and without a budget or cell budgets.
        composed_with: The earlier plans on the same records, or their charges in a ledger
            (:meth:`fitnoise.kernel.ledger.Ledger.charged`). Charges need a publication.
        gap: The relative gap that must be certified; None takes that of the publication. Without one, the solver aims
            at 1e-6.
        max_iterations: The largest number of iterations of the solver.
        progress: A function, called with the iteration and the relative gap so far.

    Returns:
        A plan for use with the given plans. Its release with their ledger raises the spent ρ by 0. Its own ρ is its
        cost without the other plans.

    Raises:
        PlanError: No slack is left, or a query counts records whose cells have no slack. Or the plans differ in unit,
            source or attributes, or have replace-one neighbours. Or no plan is given, or one twice, or the unit has a
            pattern. Or the publication has a budget, a cap, cell budgets, earlier plans of its own or questions, or too
            many joint cells. Or only charges are given, and no publication.
        SpecError: The unit has an id, or another setting does not fit earlier plans, such as pure privacy.
        FitnoiseError: The tables cannot be planned; the errors are those of :func:`fitnoise.plan`.

    **Guarantees**
        * the function reads no data;
        * the largest sum of all profiles equals that of `composed_with` exactly, also after rounding up to multiples of
          2⁻⁶⁴. The joint μ² may rise by a factor of at most 1 + 4 · 10⁻⁶, as noise on a finer lattice is nearer to
          normal;
        * the relaxation, the largest ratio of a variance to its target, is within the certified gap of the least
          possible one for independent noise.
    """
    earlier: list[Plan | ChargedPlan] = [composed_with] if isinstance(composed_with, Plan) else list(composed_with)
    publication = _publication(workload, earlier)
    charges = [_charged(x, publication) for x in earlier]
    if len({c.plan for c in charges}) != len(charges):
        raise PlanError(
            "plan-given-twice",
            "One plan is given twice.",
            "Each charge counts once.",
            "Give each plan once.",
            "Nothing was planned.",
        )
    names, slack = _slack(publication, charges)
    largest = max(slack)
    max_cost = joint([c.profile for c in charges])
    if publication.unit.pattern:
        raise PlanError(
            "free-with-pattern",
            f"The records of one {publication.unit.name} follow a pattern (such as once_per).",
            "For such units, fitnoise does not compute the budget that other plans leave free.",
            "Request the tables at a price.",
            "Nothing was planned.",
        )
    if largest <= MIN_SLACK_FRACTION * max_cost:
        raise PlanError(
            "nothing-free",
            "Records in every cell already have the full cost of these plans.",
            "",
            "Refine the plans (refine), which leaves the most free.",
            "Nothing was planned.",
        )
    free_slack = [x if x > MIN_SLACK_FRACTION * max_cost else Fraction(0) for x in slack]
    # Rounded down: a share above x/largest would let the plan spend more than the slack of the cell.
    shares = [1.0 if x == largest else float(x / largest) * (1 - 1e-12) for x in free_slack]
    request = replace(
        publication,
        gap=publication.gap if gap is None else gap,
        budget=Budget(rho=largest),
        cell_budgets=CellBudgets(tuple(names), tuple(shares)),
        composed_with=tuple(c.plan for c in charges),
        must_be_free=True,
    )

    def rest() -> str:
        return ", or of ".join(map(str, _remaining_budget(publication, charges))) or "no value of a single attribute"

    _check_cells(publication.workload, names, np.array(shares) == 0, rest)
    # The cell budgets are the slack, so the plan of least relaxation is the most accurate free one.
    plan = make_plan(request, max_iterations=max_iterations, progress=progress)
    profile = plan.order.ledger_loss().profile
    # Checked on the profile that the ledger will store: the solver is not trusted to have kept the slack.
    if profile is None or joint([*(c.profile for c in charges), profile]) > max_cost:
        raise PlanError(
            "free-tables-with-many-cells",
            f"The further tables depend on {plan.table_part.decomposition.cells:,} joint cells.",
            "The ledger cannot show for so large a number that they are free.",
            "Request tables of fewer structured attributes.",
            "No plan was made.",
        )
    return plan


def _publication(workload: Workload | Publication, earlier_plans: list[Plan | ChargedPlan]) -> Publication:
    if not earlier_plans:
        raise PlanError(
            "free-without-plan",
            "No plan or charge is given.",
            "Free queries use the budget that other plans leave.",
            "Give at least one plan.",
            "Nothing was planned.",
        )
    plans = [x.publication for x in earlier_plans if isinstance(x, Plan)]
    if isinstance(workload, Publication):
        publication = workload
    elif plans:
        earlier = plans[0]
        publication = Publication(workload, earlier.unit, earlier.source, earlier.delta, title=earlier.title)
    else:
        raise PlanError(
            "free-without-publication",
            "Only charges of a ledger are given, which do not state the privacy unit and the source.",
            "",
            "Give a publication.",
            "Nothing was planned.",
        )
    if publication.questions:
        raise PlanError(
            "free-with-question",
            "The publication has a question with finitely many answers.",
            "Such a question costs its own ε and is never free.",
            "Release it with other tables.",
            "Nothing was planned.",
        )
    given_limits = (publication.budget, publication.cap, publication.cell_budgets)
    if any(x is not None for x in given_limits) or publication.composed_with:
        raise PlanError(
            "free-with-limits",
            "The publication has a budget, a cap, cell budgets or earlier plans of its own.",
            "The given plans determine the budget of free queries.",
            "Remove all four from the publication.",
            "Nothing was planned.",
        )
    if publication.unit.neighbours is not Neighbours.ADD_OR_REMOVE_ONE:
        raise PlanError(
            "free-needs-add-or-remove",
            "The neighbours are not add-or-remove-one.",
            "The cost of other neighbours is not a sum over cells.",
            "Set add-or-remove-one neighbours.",
            "Nothing was planned.",
        )
    for other in plans:
        if (other.unit, _records(other)) != (publication.unit, _records(publication)):
            raise PlanError(
                "free-of-another-source",
                "A given plan has another privacy unit or data source than the publication.",
                "",
                "Give plans about the unit and the source of the publication.",
                "Nothing was planned.",
            )
    return publication


def _records(publication: Publication) -> DataSource:
    """Return the fields of a source that determine which records are meant."""
    return replace(publication.source, max_records=MAX_RECORDS)


def _charged(x: Plan | ChargedPlan, publication: Publication) -> ChargedPlan:
    if isinstance(x, ChargedPlan):
        return x
    profile = x.order.ledger_loss().profile
    if profile is None:  # the unit equals that of the publication
        raise PlanError(
            "plan-without-profile",
            "A given plan has replace-one neighbours, and so no profile of cells.",
            "",
            "Give plans with add-or-remove-one neighbours.",
            "Nothing was planned.",
        )
    return ChargedPlan(x.hash, profile)


def _slack(publication: Publication, charges: list[ChargedPlan]) -> tuple[list[str], list[Fraction]]:
    """Return the attributes of the charges' profiles, and the slack of ρ in their joint cells, in C order."""
    domain, left_out = publication.workload.domain, not publication.unit.is_record
    key_of = {a: axis_key(domain.axes, a, publication.source, left_out=left_out) for a in domain}
    keys = {key: a for a, key in key_of.items()}
    # A key stands for all that decides the cell: attributes of one name with other cells cannot be added.
    axes = {key: n for c in charges for key, n in c.profile.axes}
    # Joint cells of several attributes are an axis of their own.
    odd = sorted(key.rpartition(":")[0] for key in axes if key not in keys and JOINED not in key)
    if odd:
        raise PlanError(
            "attributes-of-given-plans",
            f"The given plans use the attributes {odd}, which this domain does not define as they do.",
            "The plans and the further tables must leave out the same records, too.",
            "Declare these attributes, and the records to leave out, as in the plans.",
            "Nothing was planned.",
        )
    names = [a for a in domain if key_of[a] in axes]
    ordered = [*(key_of[a] for a in names), *(key for key in axes if key not in keys)]
    shape = [axes[key] for key in ordered]
    if math.prod(shape) > MAX_STRUCTURED_CELLS:
        raise PlanError(
            "profiles-with-many-cells",
            f"The profiles of the given plans depend on {math.prod(shape):,} joint cells of "
            f"{[key.rpartition(':')[0] for key in ordered]}.",
            f"At most {MAX_STRUCTURED_CELLS:,} can be planned.",
            "Give plans with fewer structured attributes.",
            "Nothing was planned.",
        )
    # Python integers in units of 2⁻⁶⁴: the sums of profiles are exact.
    total = np.full(shape, 0, dtype=object)
    for c in charges:
        own_keys = [key for key, _ in c.profile.axes]
        values = np.array(c.profile.values, dtype=object).reshape([n for _, n in c.profile.axes])
        values = values.transpose([own_keys.index(key) for key in ordered if key in own_keys])
        total = np.asarray(total + values.reshape([axes[key] if key in own_keys else 1 for key in ordered]))
    # The further tables do not see the joint cells, so the costliest one counts.
    total = np.asarray(total.max(axis=tuple(range(len(names), len(shape)))))
    max_cost = max(total.flat)
    return names, [max(Fraction(int(max_cost - x), 2**64) - RESERVED_SLACK, Fraction(0)) for x in total.flat]


def _check_cells(
    workload: Workload, names: Sequence[str], exhausted: NDArray[np.bool_], rest: Callable[[], str]
) -> None:
    """Raise PlanError, with the name of the table, if a table counts records of cells without slack.

    exhausted: True for each joint cell of `names` without slack, in C order.
    rest: A function that returns the cells with slack, for the error.
    """
    domain = workload.domain
    spent = aligned(domain, exhausted, names, names)
    for part in workload.tables.parts:
        # a pattern that shows an attribute value by value counts every cell
        t = part.template if isinstance(part, Family) else part
        if t.matrix is not None:
            counted = t.matrix.matrix.any(axis=0).reshape(domain.shape)
            away = tuple(i for i, a in enumerate(domain) if a not in names)
            seen = np.asarray(counted).any(axis=away)
        else:
            seen = np.ones(spent.shape, dtype=bool)
            for a in names:
                if a in t.attributes:
                    seen &= aligned(domain, rules.column_norms(t.view(a).operator(domain[a])) > 0, [a], names)
        bad = np.argwhere(seen & spent)
        if len(bad):
            where = ", ".join(f"{a} = {domain[a].values[i]}" for a, i in zip(names, bad[0], strict=True))
            which = f"A pattern ({part.describe()})" if isinstance(part, Family) else f"Table {part.name!r}"
            raise PlanError(
                "cells-without-free-budget",
                f"{which} counts records that already have the full cost ({where}; {len(bad)} of {spent.size} cells).",
                f"Free are counts of {rest()}.",
                "Request the other cells only.",
                "Nothing was planned.",
            )
