"""Measuring: the only room that sees a person. Part of the trust kernel.

In this order: recompute the price from the integers about to be used; count; charge the ledger, durably; draw noise.
Before the charge nothing random has happened; after it, whatever else fails, the privacy is paid for.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from fitnoise.errors import CapExceeded, DataError, PlanError
from fitnoise.kernel import noise
from fitnoise.kernel.arrays import Exact
from fitnoise.kernel.counting import Counter, Progress, Tally, maximal
from fitnoise.kernel.designs.choices import FiniteMechanism
from fitnoise.kernel.designs.clamped import ClampedMechanism
from fitnoise.kernel.designs.lazy import LazyMechanism
from fitnoise.kernel.designs.margins import MeasuredMargin, PureStrategy
from fitnoise.kernel.designs.questions import FiniteQuery, Mechanism
from fitnoise.kernel.designs.sectors import Strategy, StrategyGroup, centre, exact_matmul
from fitnoise.kernel.ledger import Account, Entry, Ledger, ceil_dyadic
from fitnoise.kernel.prices import against_limits, finite_epsilons, unit_profile
from fitnoise.kernel.prices import charge as price
from fitnoise.kernel.units import Region
from fitnoise.planning.plan import Plan
from fitnoise.request.publication import Publication

WRAP = 2**62
"""Entries bounded by this (for the declared number of records) are computed in int64, where a sum can wrap but never
saturate: arithmetic modulo 2⁶⁴ is a homomorphism, so wrapping is post-processing and could only cost accuracy."""

HELD = 2**22
"""Numbers transformed, or drawn, at once."""


@final
@dataclass(frozen=True, eq=False)
class Measurement:
    """The noisy answers: all that ever leaves this room.

    answers: per group of sectors, integers: those of one sector after the other, each in C order of (attributes…, rows
        of A_S). Of a pure plan per measured margin, in C order of (attributes…, rows of A_b).
    charge: what the ledger was charged, the entry as written.
    outputs: of every finite mechanism which of its outputs was drawn, from 0.
    """

    answers: tuple[Exact, ...]
    charge: Entry
    outputs: tuple[int, ...] = ()


@final
@dataclass(frozen=True)
class _Part:
    """Rows of a group's basis that depend on the same structured attributes, and only on them."""

    inner: tuple[str, ...]
    rows: NDArray[np.intp]
    basis: Exact  # (rows, joint cells of those structured attributes)


def account(of: Plan | Publication) -> Account:
    """The ledger account a plan or publication charges: its data source and its privacy unit."""
    publication = of.publication if isinstance(of, Plan) else of
    return Account(publication.source.name, publication.unit.describe())


def measure(plan: Plan, counter: Counter, ledger: Ledger, *, progress: Progress | None = None) -> Measurement:
    """Measure a plan's strategy on data, once.

    Args:
        plan: the plan; only its strategy, its finite mechanisms, unit and source are used.
        counter: the data.
        ledger: charged with the exact ρ before any noise is drawn.
        progress: told how much of the counting is done, from 0 to 1.

    Raises:
        DataError: the data do not fit the domain or the plan's policy, or have more records than a small database or a
            finite question is declared to have; nothing was charged.
        CapExceeded: the strategy costs more than the plan's own cap or budget; nothing was read.
        PlanError: the plan is free, or stands beside others for replace-one neighbours; nothing was read.
        LedgerError: the ledger cannot be used, the plan cannot stand beside those it names, or it is meant to be free
            and would not be; nothing was measured.
        BudgetExceeded: the charge does not fit; nothing was measured.

    **Guarantees**
        * for neighbouring data, Σ_S ‖difference of the answers before noise‖²/σ_S² is at most the cost charged;
        * for add-or-remove-one, half of it is at most what the charge's profile says of the cell where a unit's records
          lie, and at most the largest of what it says of their cells where they lie in several;
        * every answer is an exact integer plus one independent draw of N_Z(0, σ_S²);
        * of a pure plan, the ℓ1 distance of the answers before noise over t is at most the ε charged, and the draws are
          of discrete Laplace noise of scale t;
        * every finite answer is one exact draw, by the integers of its mechanism, whose privacy is proven anew;
        * nothing else in the result, nor which integer width is used, depends on the data;
        * whatever happens after the charge, the charge stays.
    """
    strategy = _afresh(plan.strategy)
    publication = plan.publication
    finite = tuple(_anew(q, m, publication) for q, m in zip(publication.finite, plan.finite, strict=True))
    drops = publication.source.drops
    if counter.drops != drops:
        raise DataError(
            "the plan and the data source disagree on records outside the domain: one drops them, the other does not, "
            "and the price depends on it. Nothing was read and nothing was charged."
        )
    rho, epsilon = price(publication, strategy, finite)
    if rho <= 0:
        raise PlanError("a strategy that measures something costs something; this one claims to be free.")
    for what, spent, limit in against_limits(publication, plan.decomposition, strategy, rho):
        if spent > limit:
            raise CapExceeded(
                f"the plan costs more than the {what} it declares. Nothing was read and nothing was charged."
            )
    profile = unit_profile(publication, plan.decomposition, strategy, finite)
    if profile is not None and profile.largest != ceil_dyadic(rho):
        raise PlanError("the cells of a strategy do not cost what it does. Nothing was read and nothing was charged.")
    if publication.beside and profile is None:
        raise PlanError(
            "a plan stands beside others only for add-or-remove-one neighbours: what replacing a record costs is no "
            "sum over cells. Nothing was read and nothing was charged."
        )
    exact, places = _counted(plan, strategy, finite, counter, progress)
    rise = Fraction(0) if publication.free else None
    entry = ledger.charge(
        account(plan),
        rho,
        _detail(plan, strategy, finite, rho),
        profile=profile,
        beside=publication.beside,
        at_most=rise,
        epsilon=epsilon,
    )
    if isinstance(strategy, PureStrategy):
        for values in exact:
            _add_laplace(values, strategy.scale)
    else:
        for group, values in zip(strategy.groups, exact, strict=True):
            _add_noise(values, group)
    return Measurement(tuple(exact), entry, tuple(_drawn(m, i) for m, i in zip(finite, places, strict=True)))


def _drawn(mechanism: Mechanism, place: tuple[int, ...]) -> int:
    """One output for the true result at a place."""
    if isinstance(mechanism, LazyMechanism):
        drawn = noise.by_distance(mechanism.alpha, mechanism.steps, mechanism.weights, mechanism.top, place)
        return int(np.ravel_multi_index(drawn, mechanism.weights.shape))
    if isinstance(mechanism, ClampedMechanism):
        drawn = noise.clamped(mechanism.alpha, mechanism.steps, mechanism.shape, place)
        return int(np.ravel_multi_index(drawn, mechanism.shape))
    return noise.categorical(mechanism.weights.row(place[0]))


def _place(mechanism: Mechanism, result: object) -> tuple[int, ...]:
    """Where the true result is: looked up, and refused, before anything is charged."""
    place = mechanism.place(result)
    return place if isinstance(place, tuple) else (place,)


def _counted(
    plan: Plan,
    strategy: Strategy | PureStrategy,
    finite: tuple[Mechanism, ...],
    counter: Counter,
    progress: Progress | None,
) -> tuple[list[Exact], list[tuple[int, ...]]]:
    """The exact answers, by group or by measured margin; and the place of the true result of every finite question."""
    asked: list[MeasuredMargin | StrategyGroup] = []
    asked += strategy.margins if isinstance(strategy, PureStrategy) else strategy.groups
    parts = [_parts(plan, x.rows if isinstance(x, MeasuredMargin) else x.basis) for x in asked]
    needed = {m for x, own in zip(asked, parts, strict=True) for part in own for m in _margins(plan, x, part)}
    domain, source, unit = plan.publication.workload.domain, plan.publication.source, plan.publication.unit
    questions = plan.publication.finite
    needed |= {m for q in questions for m in q.margins(domain)}
    counter.check(sorted({a for m in needed for a in m}))
    margins = counter.count(maximal(needed), progress)
    if any(counts.shape != tuple(domain[a].size for a in m) for m, counts in margins.items()):
        raise DataError("the counts are of another domain than the plan's. Nothing was measured, nothing was charged.")
    tally = Tally(margins)
    _check_size(plan.publication, int(next(iter(margins.values())).sum()) if margins else 0)
    places = [
        _place(m, q.answer(domain, unit, [tally[a] for a in q.margins(domain)], drops=source.drops))
        for q, m in zip(questions, finite, strict=True)
    ]
    if isinstance(strategy, PureStrategy):
        return [_asked(plan, strategy, m, own, tally) for m, own in zip(strategy.margins, parts, strict=True)], places
    return [_transform(plan, g, own, tally) for g, own in zip(strategy.groups, parts, strict=True)], places


def _check_size(publication: Publication, records: int) -> None:
    """Refuse data that are no small database of the declared size, without saying how many records there are."""
    small = publication.small
    if small is None:
        return
    exact = small.region is Region.EXACTLY
    if records > small.size or (exact and records != small.size):
        raise DataError(
            f"the plan is for {'exactly' if exact else 'at most'} {small.size:,} records, and the data have another "
            "number. Correct `size`, if the number is public, and plan again. Nothing was measured and nothing was "
            "charged."
        )


def _afresh(strategy: Strategy | PureStrategy) -> Strategy | PureStrategy:
    """The same integers, with nothing computed of them before."""
    if isinstance(strategy, PureStrategy):
        return replace(strategy, margins=tuple(replace(m) for m in strategy.margins))
    return replace(strategy, groups=tuple(replace(g) for g in strategy.groups))


def _anew(query: FiniteQuery, mechanism: Mechanism, publication: Publication) -> Mechanism:
    """The same integers on the question's own graph, with nothing computed of them before."""
    graph = query.graph(publication.workload.domain, publication.unit, drops=publication.source.drops)
    if isinstance(mechanism, FiniteMechanism):
        return replace(mechanism, graph=graph, weights=replace(mechanism.weights))
    return replace(mechanism, graph=graph)


def _add_laplace(values: Exact, scale: float) -> None:
    """Add noise of one scale in the ring of the values, like `_add_noise`."""
    for i in range(0, len(values), HELD):
        part = values[i : i + HELD]
        part += noise.discrete_laplaces(np.array([scale]), np.array([len(part)], dtype=np.int64))


def _add_noise(values: Exact, group: StrategyGroup) -> None:
    """Add noise in the ring of the values: Python integers, or int64 modulo 2⁶⁴ (never saturating)."""
    starts, first = group.starts, 0
    while first < len(group):
        last = max(first + 1, int(np.searchsorted(starts, starts[first] + HELD, side="right")) - 1)
        values[starts[first] : starts[last]] += noise.discrete_gaussians(
            group.scales[first:last], group.answers[first:last]
        )
        first = last


def _detail(
    plan: Plan, strategy: Strategy | PureStrategy, finite: tuple[Mechanism, ...], rho: Fraction
) -> dict[str, Any]:
    names = plan.decomposition.exchangeable
    detail: dict[str, Any] = {"plan": plan.hash, "mechanism": plan.mechanism, "rho": str(rho)}
    if finite:
        epsilons = finite_epsilons(plan.publication, finite)
        detail["finite"] = [
            {"question": q.name, "family": m.family, "epsilon": str(e)}
            for q, m, e in zip(plan.publication.finite, finite, epsilons, strict=True)
        ]
    if isinstance(strategy, PureStrategy):
        return detail | {
            "margins": [{"of": [names[a] for a in m.attributes], "queries": len(m.rows)} for m in strategy.margins]
        }
    return detail | {
        "sectors": [
            {"count": len(g), "of": [names[a] for a in np.unique(g.attributes)], "cost_squared": str(cost)}
            for g, cost in zip(strategy.groups, strategy.group_costs(), strict=True)
        ],
    }


def _parts(plan: Plan, rows: Exact) -> list[_Part]:
    """Split queries by the structured attributes they depend on, so that only their margins are counted."""
    d = plan.decomposition
    groups: dict[tuple[int, ...], list[int]] = {}
    shaped = rows.reshape(-1, *d.shape)
    for i, row in enumerate(shaped):
        depends = tuple(axis for axis in range(row.ndim) if (row != row.take([0], axis)).any())
        groups.setdefault(depends, []).append(i)
    parts = []
    for depends, places in groups.items():
        index = tuple(slice(None) if axis in depends else 0 for axis in range(len(d.shape)))
        kept = np.stack([shaped[i][index].ravel() for i in places])
        parts.append(_Part(tuple(d.structured[axis] for axis in depends), np.array(places), kept))
    return parts


def _margins(plan: Plan, asked: StrategyGroup | MeasuredMargin, part: _Part) -> list[tuple[str, ...]]:
    """What must be counted for each sector, or margin: its attributes and those of the part, in domain order."""
    order = {a: i for i, a in enumerate(plan.publication.workload.domain)}
    names = np.array([*plan.decomposition.exchangeable, *part.inner], dtype=object)
    place = np.array([order[a] for a in names])
    inner = np.arange(len(names) - len(part.inner), len(names))
    attributes = np.atleast_2d(np.array(asked.attributes, dtype=np.intp))
    rows = np.concatenate([attributes, np.tile(inner, (len(attributes), 1))], axis=1)
    rows = np.take_along_axis(rows, np.argsort(place[rows], axis=1), axis=1)
    return [tuple(row) for row in names[rows].tolist()]


def _asked(plan: Plan, strategy: PureStrategy, margin: MeasuredMargin, parts: list[_Part], tally: Tally) -> Exact:
    """The exact answers of one measured margin, in C order of (attributes…, rows)."""
    wide = strategy.magnitude(plan.publication.source.max_records) >= WRAP
    dtype = np.dtype(object) if wide else np.dtype(np.int64)
    names = tuple(plan.decomposition.exchangeable[a] for a in margin.attributes)
    cells = math.prod(strategy.sizes[a] for a in margin.attributes)
    out = np.empty((cells, len(margin.rows)), dtype=dtype)
    for part in parts:
        counts = tally[(*names, *part.inner)].reshape(cells, -1)
        step = max(1, HELD // max(counts.shape[1], len(part.rows)))
        for i in range(0, cells, step):
            out[i : i + step, part.rows] = _times(counts[i : i + step], part.basis.T, dtype)
    return out.ravel()


def _transform(plan: Plan, group: StrategyGroup, parts: list[_Part], tally: Tally) -> Exact:
    """(⊗H_a ⊗ A_S B_S) applied to the counts, one sector after the other.

    Exact integers; modulo 2⁶⁴ where the public bound on the number of records allows int64.
    """
    records = plan.publication.source.max_records
    stacks = group.stacks()
    wide = any(group.magnitude(here, sizes, records) >= WRAP for sizes, here in stacks)
    dtype = np.dtype(object) if wide else np.dtype(np.int64)
    out = np.empty(group.starts[-1], dtype=dtype)
    for sizes, here in stacks:
        step = max(1, HELD // (math.prod(sizes) * max(part.basis.shape[1] for part in parts)))
        for i in range(0, len(here), step):
            some = here[i : i + step]
            values = _stack(plan, group, parts, tally, some, dtype)
            out[group.starts[some][:, None] + np.arange(values.shape[1])] = values
    return out


def _stack(
    plan: Plan,
    group: StrategyGroup,
    parts: list[_Part],
    tally: Tally,
    here: NDArray[np.intp],
    dtype: np.dtype[Any],
) -> Exact:
    """The exact answers of some sectors of a group, all of the same sizes, (K, answers)."""
    names = plan.decomposition.exchangeable
    sizes = tuple(group.sizes[here[0]].tolist())
    basis_counts = np.zeros((len(here), math.prod(sizes), group.rank), dtype=dtype)
    for part in parts:
        counts = [tally[(*(names[a] for a in row), *part.inner)] for row in group.attributes[here].tolist()]
        flat = np.stack(counts).reshape(len(here) * math.prod(sizes), -1)
        basis_counts[:, :, part.rows] = _times(flat, part.basis.T, dtype).reshape(len(here), -1, len(part.rows))
    if group.rank == 1:
        mixed = basis_counts * group.mixing[here]
    else:
        mixed = np.stack([_times(x, a.T, dtype) for x, a in zip(basis_counts, group.mixing[here], strict=True)])
    out = mixed.reshape(len(here), *sizes, group.rank)
    for axis in range(len(sizes)):
        out = centre(out, 1 + axis)
    return out.reshape(len(here), -1)


def _times(a: Exact, b: Exact, dtype: np.dtype[Any]) -> Exact:
    if dtype.kind == "O":
        return exact_matmul(a, b).astype(object)
    return np.asarray(a.astype(np.int64) @ b.astype(np.int64))
