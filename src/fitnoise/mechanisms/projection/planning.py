"""Planning of the projection mechanism for small databases: many queries, few people.

If queries far outnumber people, most of the noise of an unbiased mechanism leads to answers that no database of the
size has. So Gaussian noise of a Ky Fan design measures all queries jointly. The module then moves the answers to
the nearest answers of some database of at most n records, or to those of an entropic estimate. The released values are
biased, and their error adapts to n. The unbiased answers of the same measurement are published with them.

    1. R: the queries in row space, targets as weights (`row_space`)
    2. k and τ: by simulation on public histograms (`simulation`), unless the publication gives them
    3. Σ: least sum of the k largest variances at sensitivity 1, with a certificate (`solving.ky_fan`)
    4. integers for Σ^−½, and a scale that spends the budget (`rounding`)

The planner reads no data. The measurement is that of any Gaussian plan: it depends on integers and scales only.

**Source.** A. Nikolov, "An improved private mechanism for small databases", ICALP 2015, Algorithm 1. This module omits
the split into head and tail, which only serves the paper's proof. The choice of k and τ, the estimate and the
certificates are this project's.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import numpy as np

from fitnoise.errors import PlanError, SingularStrategy, WorkloadError
from fitnoise.kernel.designs.sectors import Strategy
from fitnoise.kernel.units import Neighbours
from fitnoise.mechanisms._base import Planner, SearchOptions
from fitnoise.mechanisms.gaussian.estimate import SectorEstimation
from fitnoise.mechanisms.gaussian.planning import BITS, DEFAULT_GAP, allowance, gap_not_reached, scale_noise
from fitnoise.mechanisms.gaussian.rounding import round_strategy
from fitnoise.mechanisms.projection import simulation as small
from fitnoise.mechanisms.projection.mechanism import PROJECTION
from fitnoise.mechanisms.projection.row_space_view import RowSpaceView
from fitnoise.mechanisms.tables import TablePart, refuse_pointless
from fitnoise.mechanisms.terms import terms
from fitnoise.messages import Message
from fitnoise.request.publication import Publication, Setting, SmallDatabase, Variant
from fitnoise.solving.certificates import Evidence, ky_fan_certificate
from fitnoise.solving.ky_fan import KyFanDesign, ky_fan_design
from fitnoise.solving.row_space import RowSpace, row_space
from fitnoise.solving.sectors import Decomposition, decompose
from fitnoise.solving.statuses import status_message


@final
@dataclass(frozen=True, eq=False)
class ChosenPart:
    """The part for a small database, and the comparison behind its setting. A given setting has no choice."""

    part: TablePart
    choice: small.SettingChoice | None

    @property
    def setting(self) -> Setting:
        """The index of the noise, and the temperature of the estimate."""
        return RowSpaceView(self.part).setting


@final
class ProjectionPlanner(Planner):
    """The planner of small databases."""

    mechanism = PROJECTION

    def supports(self, request: Publication) -> Message | None:
        """Return None for tables of a small database, else the reason."""
        return Message("report.unsuitable.no_small_database") if request.small_database is None else None

    def plan(self, request: Publication, effort: SearchOptions) -> TablePart:
        """Return the part of the chosen setting."""
        if effort.refine or effort.start is not None or effort.device is not None or effort.seconds is not None:
            raise PlanError(
                "effort-for-small-database",
                "refine, start, device or seconds is set, and the plan is for a small database.",
                "",
                "Leave refine, start, device and seconds out.",
                "No plan was made.",
            )
        return choose(request, gap=effort.gap, progress=effort.progress).part


def choose(
    publication: Publication, *, gap: float | None = None, progress: Callable[[int, float], None] | None = None
) -> ChosenPart:
    """Choose k and τ for a small database, and return its plan.

    Args:
        publication: A publication with a small database and a budget.
        gap: Relative distance of ‖Σ‖_(k) to its proven bound that the plan must certify; default the publication's.
            Without one, the planner aims at 1e-6 and reports the gap it reached.
        progress: A callback with the number of completed steps, of four, and the gap so far.

    Raises:
        WorkloadError: There are more cells than a joint plan can have, or the index exceeds the rank. Or ε n is below
            1 for the paper's variant.
        GapNotReached: The certified gap exceeds the requested gap.
        PlanError: The publication has no small database or no budget, the targets differ too much for integers, or the
            tables have no privacy cost.

    **Guarantees**
        * The planner reads no data, and the choice is the same every time.
        * The cost and the certificate are computed from the integers.
    """
    database = publication.small_database
    if database is None or publication.budget is None:
        raise PlanError(
            "small-database-without-budget",
            "The publication has no small database, or no budget.",
            "The projection mechanism needs both.",
            "Set the size of the database and a budget.",
            "No plan was made.",
        )
    report = progress or (lambda _step, _gap: None)
    required_gap = publication.gap if gap is None else gap
    goal = DEFAULT_GAP if required_gap is None else required_gap
    d = decompose(publication.workload, separate=publication.structured_attributes)
    space = row_space(d)
    report(1, math.inf)
    setting, choice = _setting(publication, database, space)
    report(2, math.inf)
    # The rest of the gap is left for the rounding to integers.
    design = ky_fan_design(space.rows, setting.index, tolerance=goal / 4)
    report(3, design.gap)
    strategy, achieved_gap = _rounded(d, space, design, goal)
    scaled = scale_noise(d, terms(publication, d), strategy, publication)
    outcome = _status(database, setting, choice, space, design)
    part = TablePart(PROJECTION, publication, scaled, Evidence(design.weights, np.zeros(0)), outcome, setting)
    refuse_pointless(part.exact_cost)
    report(4, achieved_gap)
    if required_gap is not None and part.gap > required_gap:
        raise gap_not_reached(part, required_gap, (status_message(str(design.status)),), allowance(d))
    return ChosenPart(part, choice)


def _setting(
    publication: Publication, request: SmallDatabase, space: RowSpace
) -> tuple[Setting, small.SettingChoice | None]:
    """Return k and τ, by simulation unless they are given."""
    rank, cells = space.rows.shape
    if request.index is not None and request.index > rank:
        raise WorkloadError(
            "index-above-rank",
            f"The index is {request.index}, and the queries have {rank} independent directions.",
            "",
            f"Give an index from 1 to {rank}; {rank} minimises the total variance.",
            "Nothing was planned.",
            place="index",
        )
    if request.variant is Variant.PAPER:
        epsilon = publication.budget.epsilon if publication.budget is not None else None
        index = (
            small.paper_index(epsilon, request.size) if request.index is None and epsilon is not None else request.index
        )
        assert index is not None  # noqa: S101 - a publication has one of the two
        # An index above the rank means all directions.
        return Setting(min(index, rank), 0.0), None
    if request.index is not None and request.temperature is not None:
        return Setting(request.index, float(request.temperature)), None
    assert publication.budget is not None  # noqa: S101 - checked when made
    unit = publication.unit
    # Two columns differ by up to about √2 of their length.
    pairs = 2 if unit.neighbours is Neighbours.REPLACE_ONE else 1
    multiplier = math.sqrt(pairs * unit.cost_factor() / (2 * float(publication.budget.gaussian_rho)))
    ks = small.indices(rank, cells, request.size, multiplier) if request.index is None else (request.index,)
    warm = small.TEMPERATURES if request.temperature is None else (float(request.temperature),)
    designs = small.candidate_designs(space.rows, ks)
    compared = small.simulate(space.rows, space.numbers, designs, request.size, multiplier, warm, request.region)
    choice = small.choose(compared)
    return choice.setting, choice


def _rounded(d: Decomposition, space: RowSpace, design: KyFanDesign, goal: float) -> tuple[Strategy, float]:
    """Return integers of the fewest bits whose certificate is within the goal, or of the most bits; and their gap."""
    factor = (design.basis.T @ space.triangle) / np.sqrt(design.variances)[:, None]
    best: tuple[Strategy, float] | None = None
    # Rounding to fewer bits misses the goal by itself, and the fewest bits that reach it make the smallest plan.
    for bits in [b for b in BITS[:-1] if 2.0**-b <= goal / 3] + [BITS[-1]]:
        try:
            strategy = round_strategy(d, [factor[None]], bits)
            ((whitener,),) = SectorEstimation(strategy).whiteners
            noise = space.triangle @ whitener
            certificate = ky_fan_certificate(space.rows, design.weights, noise, design.index, space.shift)
        # There are too few bits for the smallest direction.
        except SingularStrategy:
            continue
        best = strategy, certificate.gap
        if certificate.gap <= goal:
            break
    if best is None:
        raise PlanError(
            "queries-too-different-to-round",
            f"The queries differ too much in size for an integer strategy of {BITS[-1]} bits.",
            "",
            "Bring the tightest and the loosest target closer to each other.",
            "Nothing was planned.",
        )
    return best


def _status(
    request: SmallDatabase, setting: Setting, choice: small.SettingChoice | None, space: RowSpace, design: KyFanDesign
) -> tuple[Message, ...]:
    """Return the status of the plan."""
    rank = len(space.rows)
    sentences = [
        status_message("report.status.setting", index=setting.index, rank=rank, temperature=setting.temperature)
    ]
    if request.variant is Variant.PAPER:
        sentences.append(status_message("report.status.printed"))
    elif choice is None:
        sentences.append(status_message("report.status.given_setting"))
    else:
        errors, guesses = choice.errors, choice.comparison.guesses
        simulated = {"least": errors.min(), "most": errors.max()}
        unprojected = choice.comparison.unprojected[choice.position]
        sentences += [
            status_message("report.status.least_regret", **simulated, unprojected=unprojected),
            status_message("report.status.uniform_guess", guess_least=guesses.min(), guess_most=guesses.max()),
            *choice.warnings,
        ]
    if choice is None and setting.index >= rank:
        sentences.append(status_message("report.status.rank", rank=rank))
    return (*sentences, status_message(str(design.status)))
