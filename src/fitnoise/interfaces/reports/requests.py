"""The reports on requests, before any plan: the attributes of a domain, and the tables of a workload."""

from __future__ import annotations

import math

import numpy as np

from fitnoise.interfaces.reports.plans import table_label
from fitnoise.mechanisms.summaries import target_message
from fitnoise.messages import Message, Value, ValueKind
from fitnoise.reporting import Report, ReportColumn, ReportTable, Section
from fitnoise.request.attributes import Attribute
from fitnoise.request.coverage import MAX_PIECES
from fitnoise.request.domain import Domain
from fitnoise.request.workloads import Family, Table, Workload


def domain_report(domain: Domain) -> Report:
    """Return the attributes of a domain, with their kinds and values, and the number of its rules."""
    columns = (
        ReportColumn("attribute", Message("report.heading.attribute")),
        ReportColumn("kind", Message("report.heading.kind")),
        ReportColumn("values", Message("report.heading.values")),
    )
    rows = tuple((name, a.kind, _values(a)) for name, a in domain.items())
    count = Value("count", len(domain.rules), ValueKind.COUNT)
    rules = (Message("report.domain.rules", (count,)),) if domain.rules else ()
    return Report("", (Section(None, rules, tables=(ReportTable("attributes", columns, rows),)),))


def _values(a: Attribute) -> str:
    """Return the values of an attribute in few words; of a hierarchy its levels, of an amount its ends."""
    names, missing = a.cell_names[: a.own_size], a.missing_cells
    if a.levels:
        return " > ".join(a.levels)
    if a.range_attribute is not None:  # its ends depend on the value of this attribute
        return ", ".join([f"by {a.range_attribute}", *missing])
    if len(names) <= MAX_PIECES:
        texts = [str(x) for x in names]
    elif a.ordered:
        texts = [f"{names[0]} … {names[-1]}"]
    else:
        texts = [*map(str, names[:MAX_PIECES]), f"… ({len(names):,})"]
    return ", ".join([*texts, *missing])


def workload_report(workload: Workload) -> Report:
    """Return the tables of a workload, with the number of their numbers and their targets."""
    columns = (
        ReportColumn("table", Message("report.heading.table"), ValueKind.TABLE),
        ReportColumn("numbers", Message("report.heading.numbers"), ValueKind.COUNT),
        ReportColumn("target", Message("report.heading.target"), ValueKind.MESSAGE),
        ReportColumn("confidence", Message("report.heading.confidence"), ValueKind.LEVEL),
    )
    rows = tuple(_row(workload, part) for part in workload.tables.parts)
    return Report("", (Section(tables=(ReportTable("tables", columns, rows),)),))


def _row(workload: Workload, part: Table | Family) -> tuple[Message | str, int, Message, float]:
    """Return the row of a table, or of a pattern of tables."""
    domain = workload.domain
    if isinstance(part, Family):
        name, target = table_label(part.describe(), len(part)), part.template.target
        numbers = int(np.sum(part.cells(domain)))
    else:
        name, target, numbers = part.name, part.target, math.prod(part.shape(domain))
    return name, numbers, target_message(target.kind, part.targets(domain)), target.level(workload.confidence)
