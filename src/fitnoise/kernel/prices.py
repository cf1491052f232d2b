"""What a release costs one protected unit, exact, from the integers that are measured. Part of the trust kernel."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Sequence
from fractions import Fraction

from fitnoise.errors import PlanError
from fitnoise.kernel import privacy
from fitnoise.kernel.designs.margins import PureStrategy
from fitnoise.kernel.designs.questions import Mechanism
from fitnoise.kernel.designs.sectors import Strategy
from fitnoise.kernel.domain import Domain, attribute_document
from fitnoise.kernel.losses import Profile
from fitnoise.kernel.units import Neighbours
from fitnoise.request.publication import Publication
from fitnoise.solving.sectors import Decomposition

PROFILE_CELLS = 4096
"""Structured cells up to which the ledger keeps what each costs (about 80 kB); beyond, the largest stands for all."""


def finite_epsilons(publication: Publication, finite: Sequence[Mechanism]) -> tuple[Fraction, ...]:
    """What each finite answer costs one protected unit: g times what it costs one record, proven from its integers."""
    return tuple(publication.unit.max_records * m.log_ratio() for m in finite)


def charge(
    publication: Publication, strategy: Strategy | PureStrategy, finite: Sequence[Mechanism]
) -> tuple[Fraction, Fraction | None]:
    """(ρ, ε) of a release for one protected unit, exact, from the integers; ε of pure strategies only.

    Pure parts add their ε. Beside Gaussian noise each finite answer is (ε²/2)-zCDP (Bun and Steinke 2016), and ρ adds.
    """
    unit, drops = publication.unit, publication.source.drops
    extra = finite_epsilons(publication, finite)
    if isinstance(strategy, PureStrategy):
        epsilon = strategy.unit_epsilon(unit, drops=drops) + sum(extra)
        return privacy.rho(epsilon**2), epsilon
    return privacy.rho(strategy.unit_cost(unit, drops=drops)) + sum((e**2 / 2 for e in extra), Fraction(0)), None


def weighted_cost(
    publication: Publication, decomposition: Decomposition, strategy: Strategy | PureStrategy
) -> Fraction:
    """Max_o g² prof_o / r_o, exact, for cell budgets r: what a budget limits. Without them, Δ² of the unit.

    Raises:
        PlanError: the strategy measures records whose budget is 0.
    """
    budgets = publication.cell_budgets
    if budgets is None:
        return strategy.unit_cost(publication.unit, drops=publication.source.drops)
    r = budgets.along(publication.workload.domain, decomposition.structured)
    shares = list(zip(strategy.profile(), r.tolist(), strict=True))
    if any(prof > 0 and share == 0 for prof, share in shares):
        raise PlanError("the strategy measures records whose relative budget is 0.")
    return max(prof / Fraction(share) for prof, share in shares if share > 0) * publication.unit.cost_factor()


def unit_profile(
    publication: Publication,
    decomposition: Decomposition,
    strategy: Strategy | PureStrategy,
    finite: Sequence[Mechanism] = (),
) -> Profile | None:
    """What one unit costs where its records lie: ρ_o = g² prof(o)/2 in structured cell o. None for replace-one.

    A finite answer costs its ε²/2 everywhere.

    None for pure strategies too: their charges are kept apart, each with its ε.

    A unit with records in several cells costs no more than the dearest of them (:mod:`fitnoise.kernel.losses`); with
    more than `PROFILE_CELLS` cells the largest value is taken for all, which is no less anywhere.
    """
    if publication.unit.neighbours is not Neighbours.ADD_OR_REMOVE_ONE or isinstance(strategy, PureStrategy):
        return None
    domain = publication.workload.domain
    axes = [(axis_key(domain, name), n) for name, n in zip(decomposition.structured, decomposition.shape, strict=True)]
    everywhere = sum((e**2 / 2 for e in finite_epsilons(publication, finite)), Fraction(0))
    costs = [privacy.rho(c * publication.unit.cost_factor()) + everywhere for c in strategy.profile()]
    return Profile.of([], [max(costs)]) if len(costs) > PROFILE_CELLS else Profile.of(axes, costs)


def axis_key(domain: Domain, name: str) -> str:
    """An attribute's name with the SHA-256 of its whole definition: in two plans the same key, the same cells."""
    document = json.dumps(attribute_document(domain[name]), sort_keys=True, separators=(",", ":"), allow_nan=False)
    return f"{name}:{hashlib.sha256(document.encode('ascii')).hexdigest()}"


def against_limits(
    publication: Publication, decomposition: Decomposition, strategy: Strategy | PureStrategy, rho: Fraction
) -> Iterator[tuple[str, Fraction, Fraction]]:
    """(what, ρ that counts, ρ allowed): a cap limits what is charged, a budget the tables, relative to cell budgets."""
    for what, limit in publication.limits:
        relative = what == "budget" and (publication.cell_budgets is not None or bool(publication.finite))
        yield what, privacy.rho(weighted_cost(publication, decomposition, strategy)) if relative else rho, limit


def rounded_up(x: Fraction) -> float:
    """The least float that is no less; PlanError where there is none."""
    try:
        f = float(x)
    except OverflowError:
        raise PlanError("the plan costs more than a number can say; nothing of it can be used.") from None
    return f if Fraction(f) >= x else math.nextafter(f, math.inf)
