"""The joint axes of a plan: attributes that read one column are planned together, so that their tables agree.

Age and age group of one column are not free of each other. Numbers by group are sums of numbers by age. A plan lists
their joint cells (:mod:`fitnoise.request.joint_cells`), and measures both tables on this one axis. The queries are the
same, and impossible combinations are no cells. In a table that shows both attributes, their rows are 0 without error.
So the least privacy cost is at most that of a plan that treats the attributes as free of each other. Plans with
Gaussian noise are near it. The search for Laplace noise has no such proof, and can find a plan of higher cost. The same
holds where the records of a unit keep to a pattern. A pattern may name attributes of a joint axis.

Attributes stay free of each other where a plan needs their own axes. A warning then says so
(:mod:`fitnoise.planning.shared_columns`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from fitnoise.errors import DomainError
from fitnoise.kernel.domain import JointAxis
from fitnoise.mechanisms.registry import planner_by_name
from fitnoise.request.domain import Domain
from fitnoise.request.joint_axes import cells_along, used_joint_axes
from fitnoise.request.joint_cells import Block, shared_columns
from fitnoise.request.publication import Publication
from fitnoise.request.workloads import (
    Family,
    Table,
    Workload,
    axes_with_impossible_rows,
    exchangeable_attributes,
    uneven_levels,
    used_attributes,
)

MAX_JOINT_CELLS = 256
"""The largest number of structured joint cells to which a joint axis may lead: they are planned in less than a minute.
A group of tables that has more of them without joint axes may have as many."""

MAX_COUNTS = 2**24
"""The largest number of counts of one table with all combinations of the attributes of a joint axis: 128 MiB."""


def with_joint_axes(publication: Publication) -> Publication:
    """Return a publication whose domain has the joint axes by which its tables are planned.

    Joint axes of the given publication are replaced, so the result depends on declarations and tables alone.

    Args:
        publication: The publication; no data are read.
    """
    joint: list[JointAxis] = []
    publication = publication.with_joint_axes(()) if publication.domain.axes.joint else publication
    waiting = [JointAxis(x.attributes, tuple(map(tuple, x.cells.tolist()))) for x in _blocks(publication)]
    names = {name.lower() for name in publication.domain.sizes}
    waiting = [one for one in waiting if one.cells and one.name.lower() not in names]
    number = None
    # An axis can fit only after another one has fewer cells than its attributes.
    while number != len(waiting):
        number = len(waiting)
        for one in tuple(waiting):
            planned = publication.with_joint_axes([*joint, one])
            # A joint axis that no group of tables counts by would only make the plan longer.
            if _fits(planned, one) and _counts_by(planned, one):
                joint.append(one)
                waiting.remove(one)
    return publication.with_joint_axes(joint) if joint else publication


def counted_attributes(workload: Workload) -> set[str]:
    """Return the attributes and levels by whose values some table counts, without those that it only adds up.

    Args:
        workload: The tables.
    """
    names: set[str] = set()
    for template, pattern, _ in _templates(workload):
        names |= set(template.attributes) - set(template.summed) | set(pattern)
    return names


def _blocks(publication: Publication) -> Iterator[Block]:
    """Yield the groups of attributes that are not free of each other, and of which no setting needs an own axis."""
    domain, groups = publication.domain, publication.groups
    columns = [domain.column(name) for name in domain]
    if len(set(columns)) == len(columns) or publication.series is not None:
        return
    names = {a for group in groups for a in counted_attributes(group.workload)}
    separate = {domain.attribute_of(a) for group in groups for a in _with_own_axes(group)}
    # A record counts only if all attributes that are read have a cell for its value.
    counted = {domain.attribute_of(a) for group in groups for a in used_attributes(group.workload)}
    counted |= set(domain) if publication.unit.bound is not None else set(domain.drops(publication.source.drops))
    for column in shared_columns(domain, names, counted):
        try:
            blocks = column.blocks
        except DomainError:
            continue  # Too many values to be compared.
        yield from (x for x in blocks if separate.isdisjoint(map(domain.attribute_of, x.attributes)))


def _with_own_axes(group: Publication) -> set[str]:
    """Return the attributes whose cells some setting of a group of tables names: budgets, ranges, periods."""
    settings = set(group.structured_attributes)
    matrices = set(group.domain) if any(t.matrix is not None for t, *_ in _templates(group.workload)) else set()
    return settings | matrices | {a for t, *_ in _templates(group.workload) for a in t.weights(group.domain)}


def _fits(publication: Publication, one: JointAxis) -> bool:
    """Return True if every group of tables can be planned with its joint axes, of which `one` is the last."""
    for group in publication.groups:
        without_joint = group.workload.with_joint_axes(())
        # Uneven levels are planned by level, and their places are then no structured cells.
        is_by_level = bool(uneven_levels(without_joint))
        cells_without = 0 if is_by_level else _structured_cells(without_joint, group.structured_attributes)
        # Only a joint plan has rows that count no cell.
        cells_without = 0 if any(axes_with_impossible_rows(group.workload)) else cells_without
        name = group.mechanism
        if name is not None and planner_by_name(name).supports(group) is not None:
            return False
        if _structured_cells(group.workload, group.structured_attributes) > max(MAX_JOINT_CELLS, cells_without):
            return False
        if any(_counts(group.domain, one, *table) > MAX_COUNTS for table in _templates(group.workload)):
            return False
        if _counts_other_values(group, one):
            return False
    return True


def _counts_other_values(group: Publication, one: JointAxis) -> bool:
    """Return True if tables show one attribute of a joint axis alone, and values that are in no joint cell.

    They count these values with noise, and other tables show them as 0.
    """
    domain, homes = group.domain, group.domain.axes.attributes_of(one.name)
    used = [a for a in used_attributes(group.workload) if domain.attribute_of(a) in homes]
    is_single = len(set(map(domain.attribute_of, used))) == 1
    return is_single and any(len(np.unique(cells_along(domain, one, a))) < domain.sizes[a] for a in used)


def _counts(domain: Domain, one: JointAxis, table: Table, pattern: Sequence[str], order: int) -> int:
    """Return a bound on the counts of a table if records are counted by all combinations of a joint axis."""
    homes = domain.axes.attributes_of(one.name)
    sizes = (domain.sizes[a] for a in table.attributes if domain.attribute_of(a) not in homes)
    among = sorted((domain.sizes[a] for a in pattern if domain.attribute_of(a) not in homes), reverse=True)[:order]
    return math.prod((*(domain.sizes[a] for a in one.names), *sizes, *among))


def _counts_by(publication: Publication, one: JointAxis) -> bool:
    """Return True if some group of tables is counted along a joint axis."""
    return any(one in used_joint_axes(group.domain, used_attributes(group.workload)) for group in publication.groups)


def _structured_cells(workload: Workload, separate: Sequence[str]) -> int:
    return math.prod(workload.domain.sizes[a] for a in exchangeable_attributes(workload, separate)[1])


def _templates(workload: Workload) -> Iterator[tuple[Table, tuple[str, ...], int]]:
    """Yield the tables, each with the attributes of which those of its pattern show some, and their number."""
    for part in workload.tables.parts:
        yield (part.template, part.pattern_attributes, part.order) if isinstance(part, Family) else (part, (), 0)
