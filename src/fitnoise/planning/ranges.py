"""Ranges of amounts: margins in records at the largest amount (κ), and warnings that a range may cut off much.

fitnoise reads numbers outside a range as its ends, so a sum or a mean lacks the excess. The margin does not include
this bias. κ is the margin of a sum divided by the largest amount. If κ records behind one number have twice the largest
amount, the number lacks as much as its margin. For a mean ±t of n records, κ is t n divided by the largest amount. The
planner knows no data. A warning states how few records suffice, not how many there are
(docs/howto/publish_sums_and_means.md).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import final

import numpy as np

from fitnoise.mechanisms.summaries import TableSummary
from fitnoise.mechanisms.tables import TablePart
from fitnoise.messages import Message, Value, ValueKind
from fitnoise.planning.plan import Plan
from fitnoise.request.domain import Domain
from fitnoise.request.targets import z_score
from fitnoise.request.workloads import Family, Table

FEW_RECORDS = 10.0
"""The κ below which a warning is due: fewer records at twice the largest amount move a number by its margin."""

FEW_SHARE = 1e-3
"""The fraction of a mean's records below which a warning is due."""


@final
@dataclass(frozen=True)
class Kappa:
    """The margin of a table of sums or means in records at the largest amount.

    Attributes:
        summary: The accuracy that the plan guarantees for the table.
        terms: The attributes that are summed, or the amount whose mean is shown.
        label: The value of the attribute on which the range depends; None if it depends on none.
        largest: The largest absolute amount that one record can add, in units of the sum.
        requested: The requested margin, in records at `largest`.
        achieved: The achieved margin, in records at `largest`.
        reference: For means, the number of records that the margin refers to; None for sums.
        warned: True if a warning is due: the range cuts numbers, few records suffice, and neither amount nor table
            declares a ceiling.
    """

    summary: TableSummary
    terms: tuple[str, ...]
    label: str | None
    largest: float
    requested: float
    achieved: float
    reference: float | None
    warned: bool

    @property
    def fraction(self) -> float:
        """κ as a fraction of the records of a mean; infinite for sums, whose number of records is not public."""
        return math.inf if self.reference is None else self.achieved / self.reference


def summarised_tables(plan: Plan) -> Iterator[tuple[TableSummary, Table]]:
    """Yield the summary of each table with the table; a pattern of tables has one table that represents it."""
    parts = (x for p in plan.groups for x in p.publication.workload.tables.parts)
    return ((s, t.template if isinstance(t, Family) else t) for s, t in zip(plan.summaries, parts, strict=True))


def kappas(plan: Plan) -> Iterator[Kappa]:
    """Yield κ of each table of sums or means.

    If a single table shows each value of the attribute on which the range depends, there is one κ for each class.

    Args:
        plan: The plan.
    """
    domain = plan.publication.workload.domain
    for s, table in summarised_tables(plan):
        mean = table.averaged
        names = table.summed if mean is None else mean[:1]
        attributes = [domain[a] for a in names]
        amounts = [a for a in attributes if a.is_numeric]
        if not amounts:
            continue
        classifier = next((a.range_attribute for a in amounts if a.range_attribute is not None), None)
        # A pattern (s.tables > 1) has one summary for all its tables, so its classes are not separated.
        rows: list[tuple[str | None, int | None, float, float]] = [(None, None, s.target_moe, s.achieved_moe)]
        if classifier in table.attributes and table.view(classifier).is_by_value and s.tables == 1:
            rows = [*_by_class(plan.group(s.name), s, table, classifier)]
        # The ceiling of a table is a declared cut; its reports state it, so it needs no warning.
        tops = [view.ceiling for view in map(table.view, names)]
        reference = None if mean is None else mean[1].reference
        for label, class_index, target, achieved in rows:
            # A product of amounts is largest where each factor is.
            largest = math.prod(a.largest(t, class_index) for a, t in zip(amounts, tops, strict=True))
            records = (reference or 1.0) / largest
            few = achieved * records < FEW_RECORDS or (reference is not None and achieved / largest < FEW_SHARE)
            warned = few and _cuts(domain, names) and all(t is None for t in tops)
            terms = table.terms if mean is None else names
            yield Kappa(
                summary=s,
                terms=terms,
                label=label,
                largest=largest,
                requested=target * records,
                achieved=achieved * records,
                reference=reference,
                warned=warned,
            )


def warnings(plan: Plan) -> Iterator[Message]:
    """Yield a warning for each table whose range may cut off more than its margin.

    Args:
        plan: The plan; no data are read.

    Returns:
        Messages. If the range depends on classes, the message is for the class with the least κ.
    """
    # One message for each table: the class in which fewest records suffice.
    smallest: dict[str, Kappa] = {}
    for kappa in kappas(plan):
        name = kappa.summary.name
        if kappa.warned and (name not in smallest or kappa.achieved < smallest[name].achieved):
            smallest[name] = kappa
    for name, kappa in smallest.items():
        values = (
            Value("amount", " × ".join(kappa.terms)),
            Value("table", name, ValueKind.TABLE),
            Value("largest", kappa.largest, ValueKind.RESULT),
            Value("records", kappa.achieved, ValueKind.PEOPLE),
            Value("share", kappa.fraction, ValueKind.PROBABILITY),
        )
        yield Message("report.range.share" if kappa.fraction < FEW_SHARE else "report.range.records", values)


def _cuts(domain: Domain, names: tuple[str, ...]) -> bool:
    """Return True if some numbers are cut to a range, and no amount has a ceiling that states the cut."""
    attributes = [domain[a] for a in names]
    return any(a.is_capped for a in attributes) and not any(a.ceilings for a in attributes)


def _by_class(part: TablePart, s: TableSummary, table: Table, name: str) -> Iterator[tuple[str, int, float, float]]:
    """Yield name, index, smallest requested and widest achieved margin for each value of an attribute in a table."""
    domain, axis = part.publication.workload.domain, table.attributes.index(name)
    requested = np.sqrt(table.variances(domain, part.publication.workload.confidence)) * z_score(s.confidence)
    for i, (requested_here, achieved) in enumerate(
        zip(*(np.moveaxis(x, axis, 0) for x in (requested, part.table_margins(s.name))), strict=True)
    ):
        yield str(domain[name].values[i]), i, float(requested_here.min()), float(achieved.max())
