"""Measure an order on data: count the records, charge the cost, draw the noise. Part of the trust kernel.

`measure` takes these steps in this order:

1. Recompute the price from the integers to be used.
2. Check that the price fits the ledger.
3. Count.
4. Make room on the disk for the answers.
5. Charge the ledger, durably.
6. Draw noise.
7. Keep the answers, and name their digest in the ledger.
8. Return the answers.

It draws no noise before the charge. After the charge, the privacy is spent, even if a later step fails.

**A charge that was not finished.** A process that is killed after its charge leaves an entry without answers. Another
process may count and draw for that entry, at no further charge: steps 2 and 5 are left out. The ledger takes one entry
of answers for each charge, so at most one output is published. The drawn values do not decide whether a draw is kept
(:mod:`fitnoise.kernel.answer_files`). The data may have changed since. The published answers are then one output of the
mechanism on the data of that draw. No one has seen another output. So for every pair of neighbours the law of the
published answers is that of one measurement.

**Counts from elsewhere.** `sealed` counts, and returns a file for a publisher who measures on another machine.

**Trust.** A mistake here can release a number without its charge, or noise that does not match the charge.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from secrets import token_hex
from typing import Any, final

from numpy.typing import NDArray

from fitnoise.errors import CapExceeded, DataError, LedgerError, PlanError
from fitnoise.kernel import noise
from fitnoise.kernel.answer_files import AnswerFolder, room_for
from fitnoise.kernel.arrays import answers_digest
from fitnoise.kernel.counting import Counter, Margins, Progress, Tally, maximal
from fitnoise.kernel.counting.margins import summed
from fitnoise.kernel.counting.sealed import sealed as file_of_counts
from fitnoise.kernel.designs._base import Answers, Counts, Design, Margin, NoiseSource
from fitnoise.kernel.domain import axis_key
from fitnoise.kernel.ledger import Ledger, LedgerEntry, Price
from fitnoise.kernel.order import Order

_RequiredAxes = Mapping[Margin, Sequence[tuple[tuple[str, ...], tuple[str, ...]]]]
"""The margins, each with the attributes and levels by which records are counted for it (`Domain.counting_axes`)."""


@final
@dataclass(eq=False)
class Stages:
    """The stages that a measurement has passed: the source of later statements about it.

    Attributes:
        salt: The salt of the next charge; for the first draw of a period of a series, the digest of its counts.
        charge: The entry of the charge, once it is known to be written.
        answers: The entry that names the answers, once it is known to be written.
    """

    salt: str | None = None
    charge: LedgerEntry | None = None
    answers: LedgerEntry | None = None


@final
@dataclass(frozen=True, eq=False)
class Measurement:
    """The noisy answers: all that is ever published about the counts.

    Attributes:
        answers: The integer answers of every design, in its own order. Where shares are counted, the unit is 2⁻²⁰ of
            a record.
        charge: The ledger's entry of the charge.
    """

    answers: tuple[Answers, ...]
    charge: LedgerEntry


def measure(
    order: Order,
    counter: Counter,
    ledger: Ledger,
    *,
    unfinished: LedgerEntry | None = None,
    once: bool = False,
    note: Mapping[str, str] | None = None,
    stages: Stages | None = None,
    progress: Progress | None = None,
    noise: NoiseSource = noise,
) -> Measurement:
    """Measure an order on data, once.

    Args:
        order: The order: designs, protected unit and limits.
        counter: The data. Its engine keeps the contract R1 to R3 of :mod:`fitnoise.kernel.counting`, which `measure`
            cannot check.
        ledger: The ledger, charged with the exact cost before any noise is drawn. The answers are kept in a folder next
            to it (:class:`fitnoise.kernel.answer_files.AnswerFolder`) until the caller removes them.
        unfinished: A charge of this order whose answers are not named in the ledger. `measure` draws for it, at no
            further charge.
        once: True to refuse a plan for which the ledger charged this account before.
        note: Statements of the publisher that the entry of a new charge keeps. They replace no key of the order.
        stages: The record of passed stages, which `measure` updates.
        progress: A callback for the share of the counting that is done, from 0 to 1.
        noise: The source of noise.

    Raises:
        DataError: The data do not fit the domain, or have more records than declared. Or an exact number is declared,
            and the data have another one. Or a larger share was dropped than `max_dropped` allows, or the share is
            unknown. Or the counter has another id, bound, condition or rule for values outside than the order, or
            sealed counts of another order. Nothing was charged.
        CapExceeded: The designs cost more than a limit of the order; nothing was read.
        PlanError: The cost of the order is 0, or nothing is proven about its cost. Or it names other plans on the same
            records, and it has an id or its neighbours replace a record. Nothing was read.
        LedgerError: The ledger cannot be used, or the order cannot be composed with the plans it names. Or the order is
            declared free and would not be. Or `once` is set and the plan was charged. Nothing was measured. Or the
            charge to finish is not one of this order, has answers, or is in use by another process. Or the answers
            cannot be kept.
        BudgetExceeded: The charge does not fit. Nothing was read, unless others charged during the counting.

    **Guarantees**
        * For neighbouring data, the exact answers of every design differ by at most its loss. The unit is the noise
          that is added to them (:class:`fitnoise.kernel.designs._base.Design`).
        * The charge is the sum of these losses, computed here from the integers that are used. This holds for the
          order's own unit and for every other unit that its account knows.
        * Every draw is independent of all others, and exact.
        * Nothing else in the result, nor the integer width, depends on the data, except for the time of the charge. The
          ledger stores this time. The digest of the entry may still be published: its salt of 128 random bits prevents
          guessing the time that the counting took.
        * Nothing that happens after the charge removes the charge.
        * Answers are returned only after the ledger names their digest, and for each charge it names one.
    """
    # A fresh order: prices come from the integers that are drawn, and no cached result of the caller enters.
    order, stages = order.without_cache(), stages or Stages()
    _refuse(order, counter)
    if unfinished is not None:
        _refuse_other(order, ledger, unfinished)
        stages.charge = unfinished
    # A free order may raise the spent ρ of its account by 0, which the ledger checks with the charge.
    charge = partial(
        ledger.charge,
        also=order.losses_of_units(ledger.accounts()),
        composed_with=order.composed_with,
        at_most=Fraction(0) if order.free else None,
    )
    salt = token_hex(16) if unfinished is None else str(unfinished.detail["salt"])
    request = order.account, order.ledger_loss(), dict(note or {}) | order.detail() | {"salt": salt}
    if unfinished is None:
        # Checked before counting, so that data are not read for a charge that cannot fit.
        ledger.admit(*request, **charge.keywords)
    store, required = AnswerFolder(ledger), _required_margins(order)
    with store.room(salt) as room:
        if unfinished is not None:
            # Checked again: from here on no other process can finish this charge.
            _refuse_other(order, ledger, unfinished)
        exact = _exact_answers(order, required, *_count_margins(order, required, counter, progress))
        length = room_for(exact, _answer_bounds(order))
        if room is not None:
            # Space for the answers is taken before the charge: a full disk then costs no privacy.
            room.make(length)
        stages.salt = salt
        # The charge is durable before the first random bit is drawn.
        entry = stages.charge = unfinished or charge(*request, once=once)
        answers = tuple(d.draw(x, noise) for d, x in zip(order.scaled_designs, exact, strict=True))
        path = store.path(entry)
        # A ledger in memory has no folder: only the digest of the answers is recorded.
        if room is None or path is None:
            stages.answers = ledger.answer(entry, answers_digest([y for part in answers for y in part]))
        else:
            stages.answers = room.keep(answers, length, path, ledger, entry)
    return Measurement(answers, entry)


def sealed(
    order: Order, counter: Counter, seal: Callable[[bytes], bytes] | None, *, progress: Progress | None = None
) -> bytes:
    """Return a file with the exact counts of an order that is measured elsewhere, and nothing else.

    Nothing is charged, since nothing is published. The file is as confidential as the records.

    Args:
        order: The order to be measured.
        counter: The data. Its engine keeps the contract R1 to R3 of :mod:`fitnoise.kernel.counting`.
        seal: The function that seals the counts (:mod:`fitnoise.kernel.counting.keys`); None leaves them readable to
            everyone.
        progress: A callback for the share of the counting that is done, from 0 to 1.

    Raises:
        DataError: The data do not fit, as in :func:`measure`.
        CapExceeded: The designs cost more than a limit of the order; nothing was read.
        PlanError: The order cannot be measured, as in :func:`measure`.

    **Guarantees**
        * `measure` takes the file (:class:`fitnoise.kernel.counting.sealed.SealedCounter`) for the same order, and for
          no other. Orders are the same if plan, domain, conditions, bound, rule for values outside, and margins agree.
          It then charges and draws as it does for the data.
        * Without a private key of the seal, the file reveals nothing about the counts. Its length follows from the plan
          and the number of keys.
    """
    order = order.without_cache()
    _refuse(order, counter)
    margins, left_out = _count_margins(order, _required_margins(order), counter, progress)
    return file_of_counts(_counts_fingerprint(order), margins, left_out, seal)


def is_unfinished(ledger: Ledger, entry: LedgerEntry) -> bool:
    """Return True for a charge that :func:`measure` wrote, and for which the ledger names no answers.

    Args:
        ledger: The ledger that was charged.
        entry: The charge.
    """
    salted = re.fullmatch("[0-9a-f]{32}", str(entry.detail.get("salt")))  # the name of a file begins with it
    return salted is not None and entry.drawn_period is None and ledger.answered(entry) is None


def _refuse_other(order: Order, ledger: Ledger, entry: LedgerEntry) -> None:
    """Raise LedgerError unless an entry is the unfinished charge of this order, at its current price for every unit."""
    costs = {entry.account: order.ledger_loss()} | order.losses_of_units(a for a in entry.prices if a != entry.account)
    # A charge at another price, or in other accounts, would not cover this draw.
    same = entry in ledger.charges(order.account, order.plan) and entry.composed_plans == order.composed_with
    if (
        not same
        or {a: Price.from_loss(x) for a, x in costs.items()} != entry.prices
        or not is_unfinished(ledger, entry)
    ):
        raise LedgerError(
            "entry-not-unfinished",
            f"Entry {entry.sequence} is not an unfinished charge of this plan.",
            "It is for another plan or another price, or its answers were drawn.",
            "Repeat the release, or give measure the entry of this plan that has no answers.",
            "Nothing was measured and nothing was charged.",
        )


def _refuse(order: Order, counter: Counter) -> None:
    """Raise before any data are read if the order cannot be measured, or not on these data.

    Raises:
        DataError: The counter has another rule, id, bound or condition than the order, or counts of another plan.
        PlanError: The cost is 0, or the order names other plans and has an id or replace-one neighbours.
        CapExceeded: The designs cost more than a limit.
    """
    if counter.drops != order.domain.leaves_out(order.source, order.unit.bound):
        raise DataError(
            "drops-differ",
            "The plan and the data source disagree on records outside the domain: one drops them, and the other "
            "does not.",
            "The privacy cost depends on this choice.",
            "Make the plan and open the data from the same specification.",
            "Nothing was read and nothing was charged.",
        )
    if counter.bound != order.unit.bound:
        raise DataError(
            "bound-differs",
            "The plan and the data source disagree on the id, or on the number of records of each unit.",
            "Both must count the same records of each unit; an array of counts has no ids.",
            "Make the plan and open the data from the same specification.",
            "Nothing was read and nothing was charged.",
        )
    if (counter.where, counter.format) != (order.source.where, order.source.format):
        raise DataError(
            "where-differs",
            "The plan and the data source have different conditions on the counted records (where), or read texts in "
            "different forms.",
            "Both must count the same records in the same cells; an array of counts has no columns.",
            "Make the plan and open the data from the same specification.",
            "Nothing was read and nothing was charged.",
            place="where",
        )
    # Only counts from a file have a fingerprint: they are used for the plan for which they were counted.
    if counter.fingerprint is not None and counter.fingerprint != _counts_fingerprint(order):
        raise DataError(
            "counts-of-another-plan",
            "The counts were made for another plan, or by a version of fitnoise that counts differently.",
            "",
            "Count again with this plan (fitnoise count).",
            "Nothing was measured and nothing was charged.",
        )
    if order.composed_with and order.unit.bound is not None:
        raise PlanError(
            "composed-plans-with-id",
            "The plan has an id and names other plans on the same records.",
            "With an id, the counted records of a unit depend on the plan.",
            "Remove the other plans, or plan without an id.",
            "Nothing was read and nothing was charged.",
            place="composed_with",
        )
    if order.loss.rho <= 0:
        raise PlanError(
            "strategy-free",
            "The strategy of the plan has a privacy cost of 0.",
            "Every strategy that measures something has a cost above 0.",
            "Make the plan again.",
            "Nothing was read and nothing was charged.",
        )
    for limit, loss in order.against_limits():
        if not limit.allows(loss):
            raise CapExceeded(
                "plan-above-limit",
                f"The plan costs more than the {limit.name} that it declares.",
                "",
                f"Ask for less accuracy, or declare a larger {limit.name}.",
                "Nothing was read and nothing was charged.",
            )
    if order.composed_with and order.loss.profile is None:
        raise PlanError(
            "composed-plans-need-add-or-remove",
            "The plan names other plans on the same records, and its neighbours do not add or remove one record.",
            "The cost of replacing a record is not a sum over cells.",
            "Plan for add-or-remove-one neighbours, or remove the other plans.",
            "Nothing was read and nothing was charged.",
            place="composed_with",
        )


def _count_margins(
    order: Order, required: _RequiredAxes, counter: Counter, progress: Progress | None, times: int = 1
) -> tuple[Margins, int | None]:
    """Return the margins of all designs; and the number of units with left-out records, None if no design requests it.

    Counts stay exact if the counts of `times` periods are added up.

    Raises:
        DataError: The data do not fit their declaration, as in :func:`measure`.
    """
    sizes, needed = order.domain.sizes, _counter_margins(required)
    counter.check(sorted({a for m in needed for a in m}))
    # Sealed counts passed the check of dropped records where they were made.
    drops = order.domain.drops_values(order.source, order.unit.bound) and counter.fingerprint is None
    # Without a table, the counter still needs one count, so that it reports dropped records.
    margins = counter.count(needed or [()] * drops, progress)
    if any(counts.shape != tuple(sizes[a] for a in m) for m, counts in margins.items()):
        raise DataError(
            "counts-of-another-domain",
            "The counts belong to another domain than that of the plan.",
            "",
            "Count again with the domain of the plan.",
            "Nothing was measured and nothing was charged.",
        )
    if drops:
        _refuse_dropped(order, counter)
    margins = {m: margins[m] for m in needed}
    # Every margin adds up to the number of records; along an amount, 1 − j and all J_s of a record add up to 1.
    records = int(next(iter(margins.values())).sum()) if margins else 0
    for size in order.sizes:
        # The error states the declared number only, because the true number is data.
        size.refuse(records)
    max_records = order.max_records(times)
    if max_records is not None and records > max_records * order.unit.parts:
        raise DataError(
            "more-records-than-counted",
            f"The data have more records than the plan counts exactly, {max_records:,}.",
            "This number is max_records of the source, or the number of records whose steps of amounts can be added "
            "up.",
            "State a larger max_records, or declare a larger step, and plan again.",
            "Nothing was measured and nothing was charged.",
            place="max_records",
        )
    return margins, counter.left_out() if any(d.asks_left_out for d in order.designs) else None


def _refuse_dropped(order: Order, counter: Counter) -> None:
    """Raise DataError if the source limits the share of dropped records, and the share is larger or unknown.

    Only the operator sees this refusal, which depends on the data.
    """
    limit, dropped = order.source.max_dropped, counter.dropped
    if limit is None:
        return
    if dropped is None:
        raise DataError(
            "dropped-unknown",
            f"The source allows a share of {limit:.6g} of its records outside the domain (max_dropped), and these "
            "data do not hold this share.",
            "Data such as an array of counts do not hold the number of dropped records.",
            "Give the records themselves, or plan without max_dropped.",
            "Nothing was measured and nothing was charged.",
            place="max_dropped",
        )
    if dropped.exceeds(limit):
        raise DataError(
            "too-many-dropped",
            f"{dropped.dropped:,} of {dropped.records:,} records are outside the domain or have no id, by attribute: "
            f"{dropped.detail}.",
            f"The source allows a share of {limit:.6g} (max_dropped); these numbers are exact and must not be "
            "published.",
            "Correct the data or the domain, or allow a larger share.",
            "Nothing was measured and nothing was charged.",
            place="max_dropped",
            values={"dropped": dropped.dropped, "records": dropped.records, "list": dropped.attributes},
        )


def _exact_answers(
    order: Order, required: _RequiredAxes, margins: Margins, left_out: int | None, times: int = 1
) -> list[Answers]:
    """Return the exact answers of every design.

    The counts are those of `times` periods, each with at most `max_records` records.
    """
    counted = Tally(margins)
    margin_counts = {m: _margin_counts(counted, axes, m, order) for m, axes in required.items()}
    tally = Tally(margin_counts, left_out)
    max_records = _max_parts(order, times)
    return [d.exact_answers(tally, order.adjacency, max_records) for d in order.designs]


def _answer_bounds(order: Order, times: int = 1) -> list[int]:
    """Return for every design a bound on its exact answers, which follows from the order alone.

    times: The number of periods whose counts are added up, each with at most `max_records` records.
    """
    return [d.magnitude(_max_parts(order, times)) for d in order.designs]


def _max_parts(order: Order, times: int) -> int:
    # In parts of records: the designs choose the width of their integers by it.
    return times * order.unit.parts * order.source.max_records


def _counts_fingerprint(order: Order) -> str:
    """Return the identity of counts: the SHA-256, in hex, of the plan and of all that determines the counts."""
    document = {
        "plan": order.plan,
        # Levels too: the key of a hierarchy is that of its leaves, and the nesting decides the counts of its levels.
        "cells": [axis_key(order.domain, a) for a in order.domain.sizes if a in order.domain],
        "where": [(c.column, c.document) for c in order.source.conditions],
        "bound": order.unit.bound,
        "outside": order.source.outside_domain,
        "rules": [(x.names, x.cells, order.source.drops_by_rule) for x in order.domain.rules.values()],
        "margins": _counter_margins(_required_margins(order)),
    }
    return hashlib.sha256(json.dumps(document, sort_keys=True, allow_nan=False).encode("ascii")).hexdigest()


def _required_margins(order: Order) -> _RequiredAxes:
    """Return the largest margins of all designs, each with the attributes and levels of its counts."""
    return {m: order.domain.counting_axes(m) for m in maximal(_needed_margins(order, order.designs))}


def _counter_margins(required: _RequiredAxes) -> list[Margin]:
    """Return the margins that the counter must count, sorted."""
    return maximal([tuple(a for names, _ in axes for a in names) for axes in required.values()])


def _needed_margins(order: Order, designs: Sequence[Design]) -> set[Margin]:
    """Return all margins of designs of an order, each in the order of the domain, and those of attributes without any.

    A design has no margin of an attribute all of whose values count in the same numbers, such as one group of all
    values. Its own margin makes the counter read it, so that the rule for records outside the domain applies there too.
    No answer depends on this margin. Each joint axis of the domain has a margin, also without a design that counts by
    it: records with a combination that it does not list are refused.
    """
    # One order of attributes: designs that name them in different orders share one count.
    position_of = {a: i for i, a in enumerate(order.domain.sizes)}
    needed = {tuple(sorted(m, key=position_of.__getitem__)) for d in designs for m in d.margins()}
    # A level or a share stands for its hierarchy: its counter reads the same column and finds the same records outside.
    read = {a for m in needed for name in m for a in order.domain.attributes_of(name)}
    names = {a for d in designs for a in d.attributes() if not read.issuperset(order.domain.attributes_of(a))}
    return needed | {(a,) for a in names | order.domain.joint.keys()}


def _margin_counts(
    counted: Counts, axes: Sequence[tuple[tuple[str, ...], tuple[str, ...]]], margin: Margin, order: Order
) -> NDArray[Any]:
    """Return counts over a margin, with one axis for each of its names.

    Args:
        counted: The counts over attributes, as the counter gave them.
        axes: The attributes that are counted for the margin, with the axes to which their cells belong.
        margin: The names of attributes, levels, shares of levels and joint axes.
        order: The order.
    """
    counted_attributes = tuple(a for names, _ in axes for a in names)
    counts = order.domain.counts_along(counted[counted_attributes], axes, order.unit.parts)
    names = tuple(name for _, names in axes for name in names)
    return counts if names == margin else summed(counts, names, margin)
