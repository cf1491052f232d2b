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

from fitnoise import noise, privacy
from fitnoise.counting import Counter, Margins, sum_down
from fitnoise.errors import CapExceeded, DataError, PlanError
from fitnoise.ledger import Account, Entry, Ledger, ceil_dyadic
from fitnoise.plans import MECHANISM, Plan, against_limits, unit_profile
from fitnoise.publication import Publication
from fitnoise.strategy import Integers, SectorStrategy, Strategy, centre, exact_matmul

WRAP = 2**62
"""Entries bounded by this (for the declared number of records) are computed in int64, where a sum can wrap but never
saturate: arithmetic modulo 2⁶⁴ is a homomorphism, so wrapping is post-processing and could only cost accuracy."""


@final
@dataclass(frozen=True, eq=False)
class Measurement:
    """The noisy answers: all that ever leaves this room.

    answers: per sector, integers of length `SectorStrategy.answers`, in C order of (attributes…, rows of A_S).
    charge: what the ledger was charged, the entry as written.
    """

    answers: tuple[Integers, ...]
    charge: Entry


@final
@dataclass(frozen=True)
class _Part:
    """Rows of a sector's basis that depend on the same structured attributes, and only on them."""

    margin: tuple[str, ...]
    rows: NDArray[np.intp]
    basis: Integers  # (rows, joint cells of those structured attributes)


def account(of: Plan | Publication) -> Account:
    """The ledger account a plan or publication charges: its data source and its privacy unit."""
    publication = of.publication if isinstance(of, Plan) else of
    return Account(publication.source.name, publication.unit.describe())


def measure(plan: Plan, counter: Counter, ledger: Ledger) -> Measurement:
    """Measure a plan's strategy on data, once.

    Args:
        plan: the plan; only its strategy, unit and source are used.
        counter: the data.
        ledger: charged with the exact ρ before any noise is drawn.

    Raises:
        DataError: the data do not fit the domain or the plan's policy; nothing was charged.
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
        * nothing else in the result, nor which integer width is used, depends on the data;
        * whatever happens after the charge, the charge stays.
    """
    strategy = replace(plan.strategy, sectors=tuple(replace(s) for s in plan.strategy.sectors))  # nothing cached
    publication = plan.publication
    drops = publication.source.drops
    if counter.drops != drops:
        raise DataError(
            "the plan and the data source disagree on records outside the domain: one drops them, the other does not, "
            "and the price depends on it. Nothing was read and nothing was charged."
        )
    rho = privacy.rho(strategy.unit_cost(publication.unit, drops=drops))
    if rho <= 0:
        raise PlanError("a strategy that measures something costs something; this one claims to be free.")
    for what, spent, limit in against_limits(publication, plan.decomposition, strategy, rho):
        if spent > limit:
            raise CapExceeded(
                f"the plan costs more than the {what} it declares. Nothing was read and nothing was charged."
            )
    profile = unit_profile(publication, plan.decomposition, strategy)
    if profile is not None and profile.largest != ceil_dyadic(rho):
        raise PlanError("the cells of a strategy do not cost what it does. Nothing was read and nothing was charged.")
    if publication.beside and profile is None:
        raise PlanError(
            "a plan stands beside others only for add-or-remove-one neighbours: what replacing a record costs is no "
            "sum over cells. Nothing was read and nothing was charged."
        )
    parts = [_parts(plan, s) for s in strategy.sectors]
    needed = {part.margin for sector in parts for part in sector}
    counter.check(sorted({a for m in needed for a in m}))
    margins = counter.count(_maximal(needed))
    domain = publication.workload.domain
    if any(counts.shape != tuple(domain[a].size for a in m) for m, counts in margins.items()):
        raise DataError("the counts are of another domain than the plan's. Nothing was measured, nothing was charged.")
    exact = [_transform(plan, s, p, margins) for s, p in zip(strategy.sectors, parts, strict=True)]
    detail = _detail(plan, strategy, rho)
    rise = Fraction(0) if publication.free else None
    entry = ledger.charge(account(plan), rho, detail, profile=profile, beside=publication.beside, at_most=rise)
    answers = tuple(
        _add(values.ravel(), noise.discrete_gaussian(s.scale, values.size))
        for s, values in zip(strategy.sectors, exact, strict=True)
    )
    return Measurement(answers, entry)


def _detail(plan: Plan, strategy: Strategy, rho: Fraction) -> dict[str, Any]:
    sectors = strategy.sector_costs()
    names = plan.decomposition.exchangeable
    return {
        "plan": plan.hash,
        "mechanism": MECHANISM,
        "rho": str(rho),
        "sectors": [
            {"attributes": [names[a] for a in s.attributes], "cost_squared": str(cost)}
            for s, cost in zip(strategy.sectors, sectors, strict=True)
        ],
    }


def _maximal(needed: set[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """The margins that no other margin contains, in a fixed order."""
    return sorted(m for m in needed if not any(set(m) < set(other) for other in needed))


def _parts(plan: Plan, sector: SectorStrategy) -> list[_Part]:
    """Split the basis by the structured attributes its rows depend on, so that only their margins are counted."""
    d = plan.decomposition
    outer = tuple(d.exchangeable[a] for a in sector.attributes)
    order = list(plan.publication.workload.domain)
    groups: dict[tuple[int, ...], list[int]] = {}
    shaped = sector.basis.reshape(-1, *d.shape)
    for i, row in enumerate(shaped):
        depends = tuple(axis for axis in range(row.ndim) if (row != row.take([0], axis)).any())
        groups.setdefault(depends, []).append(i)
    parts = []
    for depends, rows in groups.items():
        index = tuple(slice(None) if axis in depends else 0 for axis in range(len(d.shape)))
        kept = np.stack([shaped[i][index].ravel() for i in rows])
        inner = tuple(d.structured[axis] for axis in depends)
        margin = tuple(sorted((*outer, *inner), key=order.index))
        parts.append(_Part(margin, np.array(rows), kept))
    return parts


def _transform(plan: Plan, sector: SectorStrategy, parts: list[_Part], margins: Margins) -> Integers:
    """(⊗H_a ⊗ A_S B_S) applied to the counts: exact integers, modulo 2⁶⁴ where the public bound allows int64."""
    d = plan.decomposition
    outer = tuple(d.exchangeable[a] for a in sector.attributes)
    wide = sector.magnitude(plan.publication.source.max_records) >= WRAP
    dtype = np.dtype(object) if wide else np.dtype(np.int64)
    combinations = math.prod(sector.sizes)
    basis_counts = np.zeros((combinations, len(sector.basis)), dtype=dtype)
    for part in parts:
        inner = tuple(a for a in part.margin if a not in outer)  # in domain order, as the basis has its cells
        counts = sum_down(margins, (*outer, *inner)).reshape(combinations, -1)
        basis_counts[:, part.rows] = _times(counts, part.basis.T, dtype)
    mixed = _times(basis_counts, sector.mixing.T, dtype)
    out = mixed.reshape(*sector.sizes, -1)
    for axis in range(len(sector.sizes)):
        out = centre(out, axis)
    return out


def _times(a: Integers, b: Integers, dtype: np.dtype[Any]) -> Integers:
    if dtype.kind == "O":
        return exact_matmul(a, b).astype(object)
    return np.asarray(a.astype(np.int64) @ b.astype(np.int64))


def _add(values: Integers, draws: NDArray[np.int64]) -> Integers:
    """Add in the ring of the values: Python integers, or int64 modulo 2⁶⁴ (never saturating)."""
    return np.asarray(values + (draws.astype(object) if values.dtype == object else draws))
