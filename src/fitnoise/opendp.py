"""Plans as measurements of OpenDP, so that its compositors, odometers and contexts charge them.

**Purpose.** An office that accounts in OpenDP can include releases of fitnoise. OpenDP asks a measurement for its
privacy map: a bound on the privacy loss ρ between data sets at a distance d.

**Statement.** The distance d is the number of privacy units of the plan in which two data sets differ. The map is d²ρ,
with ρ the cost of the plan for one unit. The exact fraction is rounded up to a multiple of 2⁻⁶⁴, as in the ledger, and
then to a float.

**Proof.** A chain of d changes of one unit leads from one data set to the other. So d²ρ is the group privacy of
concentrated differential privacy (Bun and Steinke 2016, Proposition 1.9).

**Two accountants.** A call of the measurement always charges the ledger of fitnoise, before it draws noise. No option
omits this charge. OpenDP accounts independently for what its context or compositor releases.

Trust: if the map were too small, OpenDP would spend more than it reports. The charge in the ledger does not use the
map.
"""

from __future__ import annotations

import os
from typing import Any

from fitnoise.errors import PlanError, ReleaseError
from fitnoise.kernel.ledger import Ledger
from fitnoise.kernel.losses import rounded_up
from fitnoise.kernel.profiles import ceil_dyadic
from fitnoise.kernel.units import Neighbours
from fitnoise.planning.plan import Plan, read_back
from fitnoise.publishing import release
from fitnoise.reading.refusals import missing_package
from fitnoise.reading.release import Release
from fitnoise.request.arguments import checked

_NOT_MADE = "No measurement was made."


@checked(ReleaseError, _NOT_MADE)
def make_measurement(
    plan: Plan,
    *,
    ledger: str | os.PathLike[str] | Ledger,
    public: str | os.PathLike[str] | None = None,
    public_confirm: str | None = None,
) -> Any:
    """Make a measurement of OpenDP that releases a plan, under zero-concentrated differential privacy.

    Enable the features "contrib" and "honest-but-curious" of OpenDP first: OpenDP cannot check foreign code.

    Args:
        plan: A plan from :func:`fitnoise.plan`, except of a series.
        ledger: The ledger of fitnoise, or its file. Each call of the measurement charges it.
        public: The file of public totals, for a plan that has some, as for :func:`fitnoise.release`.
        public_confirm: The publisher's statement about this file.

    Returns:
        A `Measurement` of OpenDP. Its input is any data that :func:`fitnoise.release` takes. Its output is the
        :class:`fitnoise.Release`. Its metric is `symmetric_distance()` or `change_one_distance()` if a unit has one
        record and no `id`; the distance is then a number of records. Otherwise the metric is a `user_distance` named
        by the privacy unit, and the distance is a number of units. Plans of one source and one unit have equal domains
        and metrics, so a compositor takes all of them.

    Raises:
        ReleaseError: OpenDP is not installed, or an argument has the wrong type.
        PlanError: The plan is of a series, or no document can state it.
        OpenDPException: A feature of OpenDP is not enabled.

    **Guarantees**
        * each call that returns a release has a charge in the ledger of fitnoise, made before the noise was drawn;
        * the privacy map is never below the ρ that the ledger is charged for this unit;
        * the privacy map refuses distances that are not whole numbers of at least 0.
    """
    try:
        import opendp.prelude as dp
    except ModuleNotFoundError:
        raise missing_package("Measurements of OpenDP", "OpenDP", "opendp", _NOT_MADE) from None
    if plan.series is not None:
        raise PlanError(
            "measurement-of-series",
            "The plan is a series, which releases one period at a time.",
            "A measurement of OpenDP releases a plan at once.",
            "Release the periods with fitnoise.release, or plan a single publication.",
            _NOT_MADE,
        )
    plan = read_back(plan)
    account, loss = plan.order.account, plan.loss

    def measure(data: Any) -> Release:
        # OpenDP charges each call, so each call is a draw of its own with a charge in the ledger
        return release(plan, data, ledger=ledger, again=True, public=public, public_confirm=public_confirm)

    def privacy_map(distance: Any) -> float:
        if type(distance) is not int or distance < 0:
            raise PlanError(
                "distance-not-a-count",
                f"The privacy map was called with the distance {distance!r}.",
                f"The distance is the number of changed units of the kind: {account.sentence}.",
                "Give a whole number of at least 0.",
                "Nothing was measured.",
            )
        if distance == 0:
            return 0.0
        return rounded_up(ceil_dyadic((loss if distance == 1 else loss.group_loss(distance)).rho))

    # Within attributes, not every replaced record is a change of the unit.
    if account.unit.id is not None or account.unit.max_records > 1 or account.unit.within:
        metric = dp.user_distance(f"changed units: {account.sentence}")
    elif account.unit.neighbours is Neighbours.ADD_OR_REMOVE_ONE:
        metric = dp.symmetric_distance()
    else:
        metric = dp.change_one_distance()
    domain = dp.user_domain(f"records of {account.source}", lambda _: True)
    return dp.m.make_user_measurement(domain, metric, dp.zero_concentrated_divergence(), measure, privacy_map)
