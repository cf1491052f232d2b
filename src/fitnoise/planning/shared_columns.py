"""Warnings about attributes that read one column, such as age and age group.

Numbers of one attribute can be sums over another one of the same column. A plan counts such attributes jointly where it
can (:mod:`fitnoise.planning.joint_axes`). Elsewhere it treats them as unrelated, and the published numbers need not add
up. The warnings follow from the declarations alone (:mod:`fitnoise.request.joint_cells`). No plan and no hash depends
on them.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator
from functools import lru_cache

from fitnoise.errors import DomainError
from fitnoise.messages import Message, Value, ValueKind
from fitnoise.planning.joint_axes import counted_attributes
from fitnoise.planning.plan import Plan
from fitnoise.planning.rule_ranks import rules_add_nothing
from fitnoise.request.coverage import list_values
from fitnoise.request.domain import Domain
from fitnoise.request.impossible_rules import in_order
from fitnoise.request.joint_axes import attributes_along, used_joint_axes
from fitnoise.request.joint_cells import Block, SharedColumn, Unreached, shared_columns
from fitnoise.request.workloads import axes_with_impossible_rows, used_attributes

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
            yield from (_unrelated(x) for x in column.blocks if not _agree(plan, x))
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
            groups += [block.attributes for block in column.blocks if not _agree(plan, block)]
        except DomainError:
            continue
    return tuple(groups)


def counted_jointly(plan: Plan) -> Iterator[Message]:
    """Yield sentences for each group of attributes that the plan counts jointly, and for the rules of its domain.

    Args:
        plan: The plan; no data are read.
    """
    domain = plan.publication.domain
    zeros = {x.name for part in plan.groups for x in axes_with_impossible_rows(part.publication.workload)}
    homes = [{*map(domain.attribute_of, one.names)} for one in domain.ruled_cells]
    for joint in domain.axes.joint.values():
        values = (Value("attributes", joint.names), Value("possible", len(joint.cells), ValueKind.COUNT))
        is_ruled = any(len(x.intersection(domain.axes.attributes_of(joint.name))) > 1 for x in homes)
        if joint.name in domain.steps:
            yield Message("report.shared_column.amount", values[:1])
            continue
        if any(joint.classes):
            yield Message("report.rules.classes" if is_ruled else "report.shared_column.classes", values)
        else:
            yield Message("report.rules.joint" if is_ruled else "report.shared_column.joint", values)
        if joint.name in zeros:
            yield Message("report.shared_column.impossible", (Value("attributes", joint.names),))
    action = "report.rules.dropped" if plan.publication.source.drops_by_rule else "report.rules.refused"
    yield from (Message(action, (Value("attributes", one.names),)) for one in domain.ruled_cells)
    if domain.rules and rules_add_nothing(plan.publication):
        ruled = in_order(domain, [name for one in domain.ruled_cells for name in one.names])
        yield Message("report.rules.nothing", (Value("attributes", ruled),))


def _agree(plan: Plan, block: Block) -> bool:
    """Return True if, for any two attributes of a block, some tables that are planned together show both jointly."""
    domain = plan.publication.domain
    joint = [
        set(domain.axes.attributes_of(one.name)).intersection(map(domain.attribute_of, names))
        for part in plan.groups
        for names in [used_attributes(part.publication.workload)]
        for one in used_joint_axes(domain, names)
    ]
    pairs = itertools.combinations(map(domain.attribute_of, block.attributes), 2)
    return all(any({*pair} <= homes for homes in joint) for pair in pairs)


def _columns(plan: Plan) -> Collection[SharedColumn]:
    request = plan.publication
    domain, source = request.workload.domain, request.source
    columns = [domain.column(name) for name in domain]
    if len(set(columns)) == len(columns):
        return ()
    designs, workloads = plan.order.designs, [part.publication.workload for part in plan.groups]
    distinguished = {name for design in designs for margin in design.margins() for name in margin}
    homes = {home for name in distinguished for home in attributes_along(domain, name)}
    names = {name for workload in workloads for name in counted_attributes(workload)}
    # In one number of all values, such as one range, nothing depends on the attribute.
    names = {name for name in names if domain.attribute_of(name) in homes}
    # Every attribute of a table is read. With an id all attributes are, because they decide which records count.
    counted = homes | {home for x in designs for name in x.attributes() for home in attributes_along(domain, name)}
    counted |= set(domain) if request.unit.bound is not None else set(domain.drops(source.drops))
    counted |= {domain.attribute_of(name) for one in domain.ruled_cells for name in one.names}
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
