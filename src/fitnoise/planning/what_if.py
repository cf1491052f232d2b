"""What it would cost if: the price of a publication as one table's margins move, and ε as δ does. Data-free.

Every point is a plan of its own, certified like any other; nothing is interpolated. Neighbours on a curve are alike, so
each plan starts from the weights of the one before it.
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
from fitnoise.kernel.domain import Domain
from fitnoise.mechanisms.gaussian.planning import DEFAULT_GAP
from fitnoise.planning.choosing import plan
from fitnoise.planning.plan import Plan
from fitnoise.request.publication import Publication
from fitnoise.request.targets import By, BySize, Kind, Target, z_score
from fitnoise.request.workloads import Family, Table, Workload

FACTORS = tuple(2.0 ** (k / 3) for k in range(-3, 4))
"""Half the margins to twice the margins in geometric steps, 1 in the middle."""

EXTREME = 1e9
"""Largest factor, and the inverse of the smallest: beyond it squares and plans leave floating point."""

Told = Callable[[int, int, int, float], None]
"""Told after each iteration: which plan, of how many, its iteration, and the relative gap so far."""


@final
@dataclass(frozen=True)
class Point:
    """What a publication costs with the margins of one table multiplied by a factor.

    Attributes:
        factor: of margins; variances are multiplied by its square.
        target_moe: margin of error asked of the table's tightest number, at the table's confidence, in people.
        rho: ρ of the whole publication.
        value: half of what was minimised: ρ itself, unless it is a hybrid or relative to cell budgets. Of
            those, `value` is settled by the targets and `rho` is not: plans of one value can differ in ρ.
        bound: certified: no plan of its kind has a smaller value.
        gap: value / bound − 1.
        epsilon: guaranteed ε at the publication's δ.
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
    """The price of a publication as the margins of one table move.

    Attributes:
        table: whose margins move.
        confidence: of the margins.
        delta: at which ε is stated.
        current: the publication as it is, factor 1, whether that factor was asked for or not.
        points: one per factor, factors increasing.
    """

    table: str
    confidence: float
    delta: float
    current: Point
    points: tuple[Point, ...]

    def to_frame(self) -> pd.DataFrame:
        """One row per factor, with the table's name and the fields of :class:`Point` as columns."""
        frame = pd.DataFrame([astuple(p) for p in self.points], columns=[f.name for f in fields(Point)])
        frame.insert(0, "table", self.table)
        return frame


class PrivacyCurve(NamedTuple):
    """δ and ε (see :meth:`Plan.epsilon`), two arrays of one length."""

    delta: Floats
    epsilon: Floats


def scaled(publication: Publication, factors: Mapping[str, float]) -> Publication:
    """The same publication with the margins of some tables multiplied.

    A margin, standard error, max deviation or coefficient of variation is multiplied by the factor, a variance by its
    square; a target by value keeps its proportions.

    Args:
        publication: what was asked for.
        factors: of margins, by name of table; the other tables keep theirs.

    Raises:
        WorkloadError: no such table, no factor from 1e-9 to 1e9, or targets beyond double precision.
    """
    w = publication.workload
    for name in factors:
        w[name]
    said = {w.number(name): _factors([factor])[0] for name, factor in factors.items()}
    parts: list[Table | Family] = []
    for start, part in zip(w.tables.starts.tolist(), w.tables.parts, strict=False):
        count = len(part) if isinstance(part, Family) else 1
        inside = {i - start: f for i, f in said.items() if start <= i < start + count}
        if not inside:
            parts.append(part)
        elif isinstance(part, Table):
            parts.append(replace(part, target=_times(part.target, inside[0])))
        else:
            parts.append(_eased(part, w.domain, inside))
    return replace(publication, workload=Workload(w.domain, parts, w.confidence))


def _eased(family: Family, domain: Domain, factors: Mapping[int, float]) -> Family:
    """The pattern with the margins of some of its tables multiplied."""
    target = family.template.target
    if isinstance(target.number, By):
        raise WorkloadError(
            "sweep-of-pattern",
            f"A pattern of tables has a target by {target.number.attribute!r}.",
            "A sweep cannot distinguish its tables.",
            "Name the table in question as a table of its own.",
            "Nothing was planned.",
        )
    numbers = family.targets(domain).reshape(len(family), -1)[:, 0].copy()
    for i, factor in factors.items():
        numbers[i] *= factor**2 if target.kind is Kind.VARIANCE else factor
    return replace(family, numbers=tuple(numbers.tolist()))


def sweep(
    what: Workload | Publication | Plan,
    table: str,
    factors: Iterable[float] = FACTORS,
    *,
    gap: float | None = DEFAULT_GAP,
    device: str | None = None,
    max_iterations: int = 2000,
    progress: Told | None = None,
) -> Sweep:
    """The price as the margins of one table are multiplied, while all other tables keep theirs.

    The walk starts at factor 1 and goes outwards both ways, each plan from the weights of its neighbour. A cap is
    dropped: the curve is there to see what lies beyond it.

    Args:
        what: the tables and their targets; or a plan, which is then the point at factor 1 if its gap allows.
        table: its name.
        factors: from 1e-9 to 1e9, in any order.
        gap: relative gap every plan must certify; None aims at 1e-6 and reports what was reached.
        device: where dense matrices live; see :func:`fitnoise.plan`.
        max_iterations: of each solve.
        progress: told which plan, of how many, its iteration and gap.

    Raises:
        WorkloadError: no such table; factors that are none, no numbers from 1e-9 to 1e9, or named twice.
        SpecError: the publication has a budget, which fixes the price.
        GapNotReached: a plan's certified gap is above the one asked for.
        PlanError: a target is out of reach of exact 64-bit noise.

    **Guarantees**
        * no data are read;
        * every number is a property of a plan that meets the targets so multiplied;
        * looser targets never have a larger `value`, but for the certified gaps.
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
    progress: Told | None = None,
) -> tuple[Sweep, ...]:
    """One :func:`sweep` per table, all from the same plan at factor 1.

    Args:
        what: the tables and their targets, or a plan for them.
        tables: names; None takes every table of the workload.
        factors: of every table's margins.
        gap: as for one sweep.
        device: as for one sweep.
        max_iterations: as for one sweep.
        progress: as for one sweep, counting the plans of all of them.

    Returns:
        In the order of `tables`.

    Raises:
        WorkloadError: as for one sweep; also no table at all, or one twice.
        SpecError, GapNotReached, PlanError: as for one sweep.
    """
    asked = what.publication if isinstance(what, Plan) else what
    publication = asked if isinstance(asked, Publication) else Publication(asked)
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
    wanted = _factors(factors)
    walk = _Walk(replace(publication, cap=None, gap=gap), device, max_iterations, progress)
    walk.left = len(names) * sum(f != 1 for f in wanted)
    if isinstance(what, Plan) and (gap is None or what.gap <= gap):
        current = what
    else:
        walk.left += 1
        current = walk.plan({}, what if isinstance(what, Plan) else None)
    return tuple(_swept(walk, current, name, wanted) for name in names)


def privacy_curve(plan: Plan, deltas: ArrayLike | None = None) -> PrivacyCurve:
    """ε of a plan at many δ.

    Args:
        plan: the plan.
        deltas: δ, shape (n,), each strictly between 0 and 1; default 1e-12 to 0.01 or as far as the publication's own δ
            and a tenfold beyond needs, that δ included, increasing.

    Raises:
        SpecError: deltas that are none, or not strictly between 0 and 1.

    **Guarantees**
        * each ε is what :meth:`Plan.epsilon` says at that δ.
    """
    if deltas is None:
        own = plan.publication.delta
        low, high = min(1e-12, max(own / 10, 1e-300)), max(1e-2, min(10 * own, (1 + own) / 2))
        delta = np.union1d(np.geomspace(low, high, 61), own)
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
class _Walk:
    """Makes the plans of some sweeps, and counts them."""

    publication: Publication
    device: str | None
    max_iterations: int
    told: Told | None
    made: int = 0
    left: int = 0

    def plan(self, factors: Mapping[str, float], start: Plan | None) -> Plan:
        self.made, self.left = self.made + 1, self.left - 1
        number, total = self.made, self.made + self.left

        def tell(iteration: int, gap: float) -> None:
            if self.told is not None:
                self.told(number, total, iteration, gap)

        return plan(
            scaled(self.publication, factors),
            start=start,
            device=self.device,
            max_iterations=self.max_iterations,
            progress=tell,
        )


def _swept(walk: _Walk, current: Plan, name: str, factors: list[float]) -> Sweep:
    workload = walk.publication.workload
    table = workload[name]
    confidence = table.target.level(workload.confidence)
    moe = z_score(confidence) * math.sqrt(table.variances(workload.domain, workload.confidence).min())
    points = {1.0: _point(current, 1.0, moe)}
    for side in ([f for f in reversed(factors) if f < 1], [f for f in factors if f > 1]):
        neighbour = current
        for factor in side:
            neighbour = walk.plan({name: factor}, neighbour)
            points[factor] = _point(neighbour, factor, factor * moe)
    return Sweep(name, confidence, walk.publication.delta, points[1.0], tuple(points[f] for f in factors))


def _point(plan: Plan, factor: float, moe: float) -> Point:
    return Point(factor, moe, plan.rho, plan.value / 2, plan.bound / 2, plan.gap, plan.epsilon())


def _times(target: Target, factor: float) -> Target:
    scale = factor**2 if target.kind is Kind.VARIANCE else factor
    number = target.number
    if isinstance(number, BySize):
        limits = [None if x is None else x * scale for x in (number.least, number.most)]
        return replace(target, number=BySize(number.coefficient * scale, number.power, *limits))
    if not isinstance(number, By):
        return replace(target, number=number * scale)
    default = None if number.default is None else number.default * scale
    if number.named:
        named = {v[0]: v[1] * scale for v in number.values if isinstance(v, tuple)}
        return replace(target, number=By(number.attribute, named, default))
    plain = [v * scale for v in number.values if not isinstance(v, tuple)]
    return replace(target, number=By(number.attribute, plain, default))


def _factors(given: Any) -> list[float]:
    """The factors as floats, increasing."""
    items = list(given) if isinstance(given, Iterable) else [given]
    for x in items:
        if not ((is_real(x) or isinstance(x, Fraction)) and 1 / EXTREME <= x <= EXTREME):
            raise WorkloadError(
                "factor-out-of-range",
                f"A factor of margins is {x!r}.",
                "",
                f"Give positive numbers from {1 / EXTREME:g} to {EXTREME:g}.",
                "Nothing was planned.",
            )
    found = sorted({float(x) for x in items})
    if not found or len(found) != len(items):
        raise WorkloadError(
            "factors-not-distinct",
            f"The factors are {items!r}.",
            "",
            "Give at least one factor, and each factor once.",
            "Nothing was planned.",
        )
    return found


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
