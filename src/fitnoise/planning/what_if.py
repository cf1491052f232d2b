"""The price of a publication with other margins or another number of records of a unit, and ε by δ. Data-free.

Every point is a plan, certified like any other plan; nothing is interpolated. Neighbours on a curve are similar, so
each plan starts from the weights of the plan before it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import astuple, dataclass, fields, replace
from fractions import Fraction
from typing import Any, NamedTuple, final

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from fitnoise.errors import SpecError, WorkloadError
from fitnoise.kernel.arrays import Floats
from fitnoise.kernel.checks import is_real
from fitnoise.mechanisms.gaussian.planning import DEFAULT_GAP
from fitnoise.planning.comparison import plan
from fitnoise.planning.plan import Plan
from fitnoise.request.domain import Domain
from fitnoise.request.number_rules import ByAttribute, ByTableSize
from fitnoise.request.publication import Publication
from fitnoise.request.targets import Target, TargetKind, z_score
from fitnoise.request.workloads import Family, Table, Workload

FACTORS = tuple(2.0 ** (k / 3) for k in range(-3, 4))
"""Factors from half the margins to twice the margins in geometric steps, with 1 in the middle."""

MAX_FACTOR = 1e9
"""The largest factor, and the inverse of the smallest: outside this range, squares and plans leave floating point."""

SweepProgress = Callable[[int, int, int, float], None]
"""The type of a progress function, called after each iteration: index of the plan, number of plans, iteration, gap."""


@final
@dataclass(frozen=True)
class SweepPoint:
    """The cost of a publication with the margins of one table multiplied by a factor.

    Attributes:
        factor: The factor of the margins; variances are multiplied by its square.
        target_moe: The requested margin of error of the table's tightest number, at the table's confidence, in people
            or in units of the sum or mean.
        rho: ρ of the complete publication.
        value: Half of the minimised value of the tables. For Gaussian noise it is their ρ, except for hybrids and for
            plans relative to cell budgets. For those the targets determine `value` but not `rho`: plans of equal value
            can differ in ρ. For pure noise it is ε²/4.
        bound: The certified bound: no plan of its kind has a smaller value.
        gap: value / bound − 1.
        epsilon: The guaranteed ε at the publication's δ.
    """

    factor: float
    target_moe: float
    rho: float
    value: float
    bound: float
    gap: float
    epsilon: float


@final
@dataclass(frozen=True)
class Sweep:
    """The price of a publication as the margins of one table change.

    Attributes:
        table: The table whose margins change.
        confidence: The confidence of the margins.
        delta: The δ at which ε is stated.
        current: The publication as it is (factor 1), also if factor 1 was not requested.
        points: One point for each requested factor, in increasing order of the factors.
    """

    table: str
    confidence: float
    delta: float
    current: SweepPoint
    points: tuple[SweepPoint, ...]

    def to_frame(self) -> pd.DataFrame:
        """Return one row for each factor, with the table's name and the fields of :class:`SweepPoint` as columns."""
        frame = pd.DataFrame([astuple(p) for p in self.points], columns=[f.name for f in fields(SweepPoint)])
        frame.insert(0, "table", self.table)
        return frame


class PrivacyCurve(NamedTuple):
    """Values of δ and of ε (see :meth:`Plan.epsilon`), in two arrays of one length."""

    delta: Floats
    epsilon: Floats


def scale_margins(publication: Publication, factors: Mapping[str, float]) -> Publication:
    """Return the publication with the margins of some tables multiplied by factors.

    The function multiplies a margin, standard error, max deviation or relative standard error by the factor, and a
    variance by its square. A target by value keeps its proportions.

    Args:
        publication: The publication to scale.
        factors: Factors of margins, by name of table; the other tables keep their margins.

    Raises:
        WorkloadError: There is no such table, a factor is not from 1e-9 to 1e9, or targets exceed double precision. Or
            the table is in a pattern of tables with a target by value.
    """
    w = publication.workload
    for name in factors:
        # Raises for an unknown table before anything is computed.
        w[name]
    factor_by_number = {w.number(name): _factors([factor])[0] for name, factor in factors.items()}
    parts: list[Table | Family] = []
    for start, part in zip(w.tables.starts.tolist(), w.tables.parts, strict=False):
        count = len(part) if isinstance(part, Family) else 1
        # A pattern is one part with many tables, numbered from `start`.
        inside = {i - start: f for i, f in factor_by_number.items() if start <= i < start + count}
        if not inside:
            parts.append(part)
        elif isinstance(part, Table):
            parts.append(replace(part, target=_scale_target(part.target, inside[0])))
        else:
            parts.append(_eased(part, w.domain, inside))
    return replace(publication, workload=Workload(w.domain, parts, w.confidence))


def _eased(family: Family, domain: Domain, factors: Mapping[int, float]) -> Family:
    """Return the pattern with the margins of some of its tables multiplied."""
    target = family.template.target
    if target.attribute is not None:
        raise WorkloadError(
            "sweep-of-pattern",
            f"A pattern of tables has a target by {target.attribute!r}.",
            "A sweep cannot distinguish its tables.",
            "Name the table in question as a table of its own.",
            "Nothing was planned.",
        )
    # Without a target by value, all numbers of a table have one target.
    numbers = family.targets(domain).reshape(len(family), -1)[:, 0].copy()
    for i, factor in factors.items():
        numbers[i] *= factor**2 if target.kind is TargetKind.VARIANCE else factor
    return replace(family, numbers=tuple(numbers.tolist()))


def bound_records(publication: Publication, max_records: int) -> Publication:
    """Return the publication with another bound on the records of one unit, and without a cap.

    The cap of a publication is for its own bound, and would refuse larger ones.

    Args:
        publication: The publication to change.
        max_records: The largest number of records of one unit that are counted, at least 1.

    Raises:
        SpecError: The publication counts shares of units, or `max_records` is below 1.
    """
    unit = replace(publication.unit, max_records=max_records)
    # A further unit of this name is the same unit with other neighbours.
    units = (replace(u, max_records=max_records) if u.name == unit.name else u for u in publication.other_units)
    parts = (replace(p, unit=unit) for p in publication.further_tables)
    return replace(publication, unit=unit, other_units=tuple(units), further_tables=tuple(parts), cap=None)


def sweep(
    what: Workload | Publication | Plan,
    table: str,
    factors: Iterable[float] = FACTORS,
    *,
    gap: float | None = DEFAULT_GAP,
    device: str | None = None,
    max_iterations: int = 2000,
    progress: SweepProgress | None = None,
) -> Sweep:
    """Compute the price as the margins of one table are multiplied, while all other tables keep their margins.

    The plans start at factor 1 and go outwards in both directions, each from the weights of its neighbour. The sweep
    removes a cap, because the curve shows the prices above it.

    Args:
        what: The tables and their targets; or a plan, which is then the point at factor 1 if its gap is small enough.
        table: The name of the table.
        factors: Factors from 1e-9 to 1e9, in any order.
        gap: The relative gap that every plan must certify; None aims at 1e-6 and reports the gap that is reached.
        device: The place of dense matrices; see :func:`fitnoise.plan`.
        max_iterations: The largest number of iterations of each solve.
        progress: A function, called with the index of the plan, the number of plans, the iteration and the gap.

    Raises:
        WorkloadError: There is no such table. Or the factors are missing, not numbers from 1e-9 to 1e9, or given twice.
            Or the table is in a pattern of tables with a target by value, and some factor is not 1.
        SpecError: The publication has a budget, which fixes the price. Or it has pure privacy and `gap` is not None:
            pure privacy needs gap=None.
        GapNotReached: A plan's certified gap is above the requested gap.
        PlanError: A target is out of reach of exact 64-bit noise.

    **Guarantees**
        * the sweep reads no data;
        * every number is a property of a plan that meets the multiplied targets;
        * looser targets never have a larger `value`, except for the certified gaps.
    """
    (one,) = sweeps(what, [table], factors, gap=gap, device=device, max_iterations=max_iterations, progress=progress)
    return one


def sweeps(
    what: Workload | Publication | Plan,
    tables: Iterable[str] | None = None,
    factors: Iterable[float] = FACTORS,
    *,
    gap: float | None = DEFAULT_GAP,
    device: str | None = None,
    max_iterations: int = 2000,
    progress: SweepProgress | None = None,
) -> tuple[Sweep, ...]:
    """Compute one :func:`sweep` for each table, all from one plan at factor 1.

    Args:
        what: The tables and their targets, or a plan for them.
        tables: Names of tables; None takes every table of the workload.
        factors: Factors of every table's margins.
        gap: The gap, as for one sweep.
        device: The device, as for one sweep.
        max_iterations: The largest number of iterations, as for one sweep.
        progress: A function as for one sweep, with the plans of all sweeps counted.

    Returns:
        Sweeps in the order of `tables`.

    Raises:
        WorkloadError: As for one sweep; also if there is no table, or one is given twice.
        SpecError, GapNotReached, PlanError: As for one sweep.
    """
    request = what.publication if isinstance(what, Plan) else what
    publication = request if isinstance(request, Publication) else Publication(request)
    if publication.budget is not None:
        raise SpecError(
            "sweep-with-budget",
            "The publication has a budget.",
            "A budget fixes the price, so other targets change the margins of all tables, not the price.",
            "Leave the budget out.",
            "Nothing was planned.",
            place="budget",
        )
    names = publication.workload.tables.names if tables is None else _names(publication.workload, tables)
    factors_used = _factors(factors)
    # The curve shows the prices above a cap, too.
    walk = _SweepPlanner(replace(publication, cap=None, gap=gap), device, max_iterations, progress)
    # Factor 1 is planned once for all tables.
    walk.remaining = len(names) * sum(f != 1 for f in factors_used)
    if isinstance(what, Plan) and (gap is None or what.gap <= gap):
        current = what
    else:
        walk.remaining += 1
        current = walk.plan({}, what if isinstance(what, Plan) else None)
    return tuple(_swept(walk, current, name, factors_used) for name in names)


def privacy_curve(plan: Plan, deltas: ArrayLike | None = None) -> PrivacyCurve:
    """Return ε of a plan at many δ.

    Args:
        plan: The plan.
        deltas: Values of δ, shape (n,), each strictly between 0 and 1. By default they increase from at most 1e-12 to
            at least 0.01, and include the publication's own δ. They reach from δ/10 to 10 δ where that is further,
            but at most half of the way from δ to 1.

    Raises:
        SpecError: There are no deltas, or one is not strictly between 0 and 1.

    **Guarantees**
        * each ε equals :meth:`Plan.epsilon` at that δ.
    """
    if deltas is None:
        plan_delta = plan.publication.delta
        # The last limit stays below 1 for a δ of the publication close to 1.
        low, high = min(1e-12, max(plan_delta / 10, 1e-300)), max(1e-2, min(10 * plan_delta, (1 + plan_delta) / 2))
        delta = np.union1d(np.geomspace(low, high, 61), plan_delta)
    else:
        delta = np.asarray(deltas)
        if delta.ndim != 1 or delta.dtype.kind not in "iuf" or not delta.size or not ((delta > 0) & (delta < 1)).all():
            raise SpecError(
                "deltas-out-of-range",
                "deltas is not a list of numbers between 0 and 1, both excluded.",
                "",
                "Give a list such as [1e-9, 1e-6].",
                "Nothing was computed.",
            )
        delta = delta.astype(np.float64)
    return PrivacyCurve(delta, np.array([plan.epsilon(float(d)) for d in delta]))


@dataclass
class _SweepPlanner:
    """The maker of the plans of some sweeps, which also counts them."""

    publication: Publication
    device: str | None
    max_iterations: int
    report_progress: SweepProgress | None
    planned: int = 0
    remaining: int = 0

    def plan(self, factors: Mapping[str, float], start: Plan | None) -> Plan:
        self.planned, self.remaining = self.planned + 1, self.remaining - 1
        number, total = self.planned, self.planned + self.remaining

        def report(iteration: int, gap: float) -> None:
            if self.report_progress is not None:
                self.report_progress(number, total, iteration, gap)

        return plan(
            scale_margins(self.publication, factors),
            start=start,
            device=self.device,
            max_iterations=self.max_iterations,
            progress=report,
        )


def _swept(walk: _SweepPlanner, current: Plan, name: str, factors: list[float]) -> Sweep:
    workload = walk.publication.workload
    table = workload[name]
    confidence = table.target.level(workload.confidence)
    # The variances of a mean are those of counts: `scale` leads back to the unit of its target.
    std_error = math.sqrt(table.variances(workload.domain, workload.confidence).min()) / table.scale(workload.domain)
    moe = z_score(confidence) * std_error
    points = {1.0: _point(current, 1.0, moe)}
    # Neighbours on the curve are similar, so the weights of one plan are close to those of the next.
    for side in ([f for f in reversed(factors) if f < 1], [f for f in factors if f > 1]):
        neighbour = current
        for factor in side:
            neighbour = walk.plan({name: factor}, neighbour)
            points[factor] = _point(neighbour, factor, factor * moe)
    return Sweep(name, confidence, walk.publication.delta, points[1.0], tuple(points[f] for f in factors))


def _point(plan: Plan, factor: float, moe: float) -> SweepPoint:
    return SweepPoint(
        factor, moe, plan.rho, plan.table_part.objective_value / 2, plan.bound / 2, plan.gap, plan.epsilon()
    )


def _scale_target(target: Target, factor: float) -> Target:
    scale = factor**2 if target.kind is TargetKind.VARIANCE else factor
    number = target.number
    if isinstance(number, ByTableSize):
        limits = [None if x is None else x * scale for x in (number.least, number.most)]
        return replace(target, number=ByTableSize(number.coefficient * scale, number.power, *limits))
    if not isinstance(number, ByAttribute):
        return replace(target, number=number * scale)
    default = None if number.default is None else number.default * scale
    if number.is_by_name:
        by_name = {v[0]: v[1] * scale for v in number.values if isinstance(v, tuple)}
        return replace(target, number=ByAttribute(number.attribute, by_name, default))
    scaled = [v * scale for v in number.values if not isinstance(v, tuple)]
    return replace(target, number=ByAttribute(number.attribute, scaled, default))


def _factors(factors: Any) -> list[float]:
    """Return the factors as floats, increasing."""
    items = list(factors) if isinstance(factors, Iterable) else [factors]
    for x in items:
        if not ((is_real(x) or isinstance(x, Fraction)) and 1 / MAX_FACTOR <= x <= MAX_FACTOR):
            raise WorkloadError(
                "factor-out-of-range",
                f"A factor of margins is {x!r}.",
                "",
                f"Give positive numbers from {1 / MAX_FACTOR:g} to {MAX_FACTOR:g}.",
                "Nothing was planned.",
            )
    distinct = sorted({float(x) for x in items})
    if not distinct or len(distinct) != len(items):
        raise WorkloadError(
            "factors-not-distinct",
            f"The factors are {items!r}.",
            "",
            "Give at least one factor, and each factor once.",
            "Nothing was planned.",
        )
    return distinct


def _names(workload: Workload, tables: Iterable[str]) -> list[str]:
    names = [tables] if isinstance(tables, str) else list(tables)
    for name in names:
        workload[name]
    if not names or len(set(names)) != len(names):
        raise WorkloadError(
            "sweep-tables-not-distinct",
            f"The tables of the sweep are {names!r}.",
            "",
            "Give at least one table, and each table once.",
            "Nothing was planned.",
        )
    return names
