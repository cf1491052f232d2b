"""Warnings about attributes that read one column, such as age and age group.

Plans treat all attributes as unrelated. Numbers of one attribute can be sums over another one of the same column, and
the published numbers then need not add up. The warnings follow from the declarations alone
(:mod:`fitnoise.request.joint_cells`). No plan and no hash depends on them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import lru_cache

from fitnoise.errors import DomainError
from fitnoise.messages import Message, Value, ValueKind
from fitnoise.planning.plan import Plan
from fitnoise.request.coverage import list_values
from fitnoise.request.domain import Domain
from fitnoise.request.joint_cells import Block, SharedColumn, Unreached, shared_columns
from fitnoise.request.workloads import Family, Workload

COMPARED_DOMAINS = 16
"""The number of domains whose joint cells are kept: a page states them several times."""


def warnings(plan: Plan) -> Iterator[Message]:
    """Yield a warning for each group of shown attributes of one column that are not free of each other.

    Also yield a warning for each shown attribute with cells that no counted record can have.

    Args:
        plan: The plan; no data are read.
    """
    domain = plan.publication.workload.domain
    for column in _columns(plan):
        try:
            yield from map(_unrelated, column.blocks)
            yield from (_unreached(domain, each) for each in column.unreached)
        except DomainError:
            # A plan does not need the joint cells, so a column of millions of values is no error.
            yield Message("report.shared_column.unknown", (Value("attributes", column.tabulated),))


def unrelated(plan: Plan) -> tuple[tuple[str, ...], ...]:
    """Return the groups of shown attributes whose numbers need not agree, because they read one column.

    Args:
        plan: The plan; no data are read.

    Returns:
        The names of each group. A column of too many values has no group.
    """
    groups: list[tuple[str, ...]] = []
    for column in _columns(plan):
        try:
            groups += [block.attributes for block in column.blocks]
        except DomainError:
            continue
    return tuple(groups)


def counted_attributes(workload: Workload) -> set[str]:
    """Return the attributes and levels by whose values some table counts, without those that it only adds up.

    Args:
        workload: The tables.
    """
    names: set[str] = set()
    for part in workload.tables.parts:
        table = part.template if isinstance(part, Family) else part
        names |= set(table.attributes) - set(table.summed)
        names |= set(part.pattern_attributes) if isinstance(part, Family) else set()
    return names


def _columns(plan: Plan) -> Collection[SharedColumn]:
    request = plan.publication
    domain, source = request.workload.domain, request.source
    columns = [domain.column(name) for name in domain]
    if len(set(columns)) == len(columns):
        return ()
    designs, workloads = plan.order.designs, [part.publication.workload for part in plan.groups]
    distinguished = {name for design in designs for margin in design.margins() for name in margin}
    homes = {domain.attribute_of(name) for name in distinguished}
    names = {name for workload in workloads for name in counted_attributes(workload)}
    # In one number of all values, such as one range, nothing depends on the attribute.
    names = {name for name in names if domain.attribute_of(name) in homes}
    # Every attribute of a table is read. With an id all attributes are, because they decide which records count.
    counted = homes | {domain.attribute_of(name) for design in designs for name in design.attributes()}
    counted |= set(domain) if request.unit.bound is not None else set(domain.drops(source.drops))
    return _compared(domain, frozenset(names), frozenset(counted))


@lru_cache(COMPARED_DOMAINS)
def _compared(domain: Domain, names: frozenset[str], counted: frozenset[str]) -> Collection[SharedColumn]:
    return tuple(shared_columns(domain, names, counted))


def _unrelated(block: Block) -> Message:
    values = (
        Value("attributes", block.attributes),
        Value("column", block.column),
        Value("possible", len(block.cells), ValueKind.COUNT),
        Value("combinations", block.combinations, ValueKind.COUNT),
    )
    return Message("report.shared_column.unrelated", values)


def _unreached(domain: Domain, empty: Unreached) -> Message:
    listed = list_values(empty.attribute, domain[empty.attribute], empty.cells)
    omitted = Message("report.shared_column.more", (Value("count", listed.omitted_count, ValueKind.COUNT),))
    values = (
        Value("attribute", empty.attribute),
        Value("values", (*listed.pieces, *([omitted] if listed.omitted_count else []))),
        Value("cause", empty.cause),
    )
    if empty.cause is None:
        return Message("report.shared_column.unreached", values)
    is_own = empty.cause == empty.attribute
    return Message("report.shared_column.unreached_alone" if is_own else "report.shared_column.unreached_by", values)
