"""The joint axes of a plan: attributes that are not free of each other are planned together.

Attributes can read one column, and rules can exclude combinations of attributes.

Age and age group of one column are not free of each other. Numbers by group are sums of numbers by age. A plan lists
their joint cells (:mod:`fitnoise.request.joint_cells`), and measures both tables on this one axis. The queries are the
same, and impossible combinations are no cells. In a table that shows both attributes, their rows are 0 without error.
So the least privacy cost is at most that of a plan that treats the attributes as free of each other. Plans with
Gaussian noise are near it. The search for Laplace noise has no such proof, and can find a plan of higher cost. The same
holds where the records of a unit keep to a pattern. A pattern may name attributes of a joint axis.

Attributes of one column stay free of each other where a plan needs their own axes. A warning then says so
(:mod:`fitnoise.planning.shared_columns`). Rules about impossible cells leave possible joint cells, too. A plan that
shows such attributes jointly, and needs their own axes, is refused. It would publish noise where no record can be. Its
bound would not hold for the possible cells.

Columns and rules can leave too many joint cells for one structured axis. Values of an attribute that these and the
tables treat in the same way then form a class. The plan lists combinations of classes
(:mod:`fitnoise.solving.class_sectors`). Only Gaussian noise by sectors counts by classes. A plan with classes has no
pattern of records, public totals or amounts.

An amount lies within the cell of cuts of its column. A plan with Gaussian noise counts both jointly
(:func:`fitnoise.kernel.domain.cells_with_amount`), and a record then costs what its amount can be there.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence

import numpy as np

from fitnoise.algebra.rules import dense
from fitnoise.errors import DomainError, WorkloadError
from fitnoise.kernel.arrays import Indices, Integers
from fitnoise.kernel.domain import JointAxis, cells_with_amount
from fitnoise.mechanisms.registry import PLANNERS, planner_by_name
from fitnoise.request.domain import Domain
from fitnoise.request.impossible_rules import Mask, RuledCells, cells_from_finer, in_order
from fitnoise.request.joint_axes import attributes_along, classes_along, has_all_values, used_joint_axes
from fitnoise.request.joint_cells import SharedColumn, dependent_columns, lowest_names, shared_columns
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
from fitnoise.solving.sectors import MAX_STRUCTURED_CELLS

MAX_JOINT_CELLS = 256
"""The largest number of structured joint cells to which a joint axis may lead: they are planned in less than a minute.
A group of tables that has more of them without joint axes may have as many."""

MAX_RULED_CELLS = 512
"""The largest such number for a domain with rules about impossible cells, because rules need joint axes."""

MAX_CLASS_CELLS = 2000
"""The largest such number with classes of values, if the tables have at most as many rows as cells are allowed else.

The solver takes a time that grows with the cube of the independent rows."""

MAX_CLASS_BLOCKS = 2**11
"""The largest number of blocks into which classes of values divide all tables without rules, which need them.

A block shows one class of each attribute, and is planned on its own. This number takes less than a minute."""

MAX_COMPARED_CELLS = 2**22
"""The largest number of joint cells that are compared with rules: 4 MiB."""

MAX_COUNTS = 2**24
"""The largest number of counts of one table with all combinations of the attributes of a joint axis: 128 MiB."""

MAX_CLASS_COUNTS = 2**25
"""The largest such number for a joint axis with classes of values and rules, which need it: 256 MiB."""


def with_joint_axes(publication: Publication) -> Publication:
    """Return a publication whose domain has the joint axes by which its tables are planned.

    Joint axes of the given publication are replaced, so the result depends on declarations and tables alone.

    Args:
        publication: The publication; no data are read.

    Raises:
        WorkloadError: The tables cannot be planned with the rules about impossible cells.
    """
    joint: list[JointAxis] = []
    publication = publication.with_joint_axes(()) if publication.domain.axes.joint else publication
    _refuse_source(publication)
    _refuse_questions(publication)
    blocks = [(names, cells) for names, cells in _blocks(publication) if len(cells)]
    listed = sorted((x for x in blocks if len(x[1]) <= MAX_STRUCTURED_CELLS), key=lambda x: len(x[1]))
    names = {name.lower() for name in publication.domain.sizes}
    waiting = [JointAxis(names, tuple(map(tuple, cells.tolist()))) for names, cells in listed]
    waiting = [one for one in waiting if one.name.lower() not in names]
    number = None
    # An axis can fit only after another one has fewer cells than its attributes. Small axes leave room for others.
    while number != len(waiting):
        number = len(waiting)
        for one in tuple(waiting):
            planned = publication.with_joint_axes([*joint, one])
            # A joint axis that no group of tables counts by would only make the plan longer.
            if _fits(planned, one) and _counts_by(planned, one):
                joint.append(one)
                waiting.remove(one)
    planned_names = {one.names for one in joint}
    for classed in (_by_class(publication, *x) for x in blocks if x[0] not in planned_names):
        if classed is not None and names.isdisjoint(x.lower() for x in (classed.name, *classed.class_axes)):
            planned = publication.with_joint_axes([*joint, classed])
            if _fits(planned, classed) and _counts_by(planned, classed):
                joint.append(classed)
    for one in (x for x in _amounts_within_cuts(publication) if x.name.lower() not in names):
        planned = publication.with_joint_axes([*joint, one])
        joined = {home for x in joint for home in planned.domain.axes.attributes_of(x.name)}
        if joined.isdisjoint(one.names) and _fits(planned, one) and _counts_by(planned, one):
            joint.append(one)
    _refuse_unplanned(publication, joint)
    return publication.with_joint_axes(joint) if joint else publication


def _by_class(publication: Publication, names: tuple[str, ...], cells: Integers) -> JointAxis | None:
    """Return the joint axis of classes of values that the possible joint cells and the tables treat in the same way.

    The function returns None if no attribute has a class of several values, or the attributes have too many joint
    values. It does so for publications with a pattern of records or public totals, too.

    Args:
        publication: The publication, without joint axes.
        names: The attributes, or levels of them.
        cells: Their possible joint cells, of shape (joint cells, names), sorted.
    """
    domain, sizes = publication.domain, [publication.domain.sizes[a] for a in names]
    if publication.adjacency.pattern or publication.public is not None or math.prod(sizes) > MAX_CLASS_COUNTS:
        return None
    bound = [exchangeable_attributes(group.workload, group.structured_attributes)[1] for group in publication.groups]
    structured = {domain.attribute_of(a) for axes in bound for a in axes}
    possible: Mask = np.zeros(sizes, dtype=bool)
    possible[tuple(cells.T)] = True
    rows: list[tuple[int, ...]] = []
    for i, name in enumerate(names):
        by_value = np.packbits(np.moveaxis(possible, i, 0).reshape(sizes[i], -1), axis=1)
        _, first_values, which = np.unique(by_value, axis=0, return_index=True, return_inverse=True)
        # Classes in the order of their first values.
        labels = np.argsort(np.argsort(first_values))[which.ravel()]
        is_one_by_one = name in structured or domain[name].tree is not None or len(first_values) == sizes[i]
        rows.append(() if is_one_by_one else tuple(labels.tolist()))
    columns = [np.array(row)[x] if row else x for row, x in zip(rows, cells.T, strict=True)]
    tuples = np.unique(np.stack(columns, axis=1), axis=0)
    return JointAxis(names, tuple(map(tuple, tuples.tolist())), tuple(rows)) if any(rows) else None


def counted_attributes(workload: Workload) -> set[str]:
    """Return the attributes and levels by whose values some table counts, without those that it only adds up.

    Args:
        workload: The tables.
    """
    names: set[str] = set()
    for template, pattern, _ in _templates(workload):
        names |= set(template.attributes) - set(template.summed) | set(pattern)
    return names


def _blocks(publication: Publication) -> Iterator[tuple[tuple[str, ...], Integers]]:
    """Yield the groups of attributes that are not free of each other, and of which no setting needs an own axis.

    Each comes with its possible joint cells, of shape (joint cells, attributes).
    """
    domain, groups = publication.domain, publication.groups
    if publication.series is not None:
        return
    names, counted = _read_attributes(publication)
    separate = {domain.attribute_of(a) for group in groups for a in _with_own_axes(group)}
    ruled_columns = {domain.column(a) for a in _ruled_attributes(domain)}
    for column in _shared_columns(domain, names, counted):
        if column.column not in ruled_columns:
            blocks = ((x.attributes, x.cells) for x in column.blocks)
            yield from (x for x in blocks if separate.isdisjoint(map(domain.attribute_of, x[0])))
    yield from (x for x in _ruled_blocks(domain, names, counted) if separate.isdisjoint(map(domain.attribute_of, x[0])))


def _read_attributes(publication: Publication) -> tuple[set[str], set[str]]:
    """Return the attributes by whose values tables count, and those in which each counted record has a cell."""
    domain, groups = publication.domain, publication.groups
    names = {a for group in groups for a in counted_attributes(group.workload)}
    # A record counts only if all attributes that are read have a cell for its value.
    counted = {domain.attribute_of(a) for group in groups for a in used_attributes(group.workload)}
    counted |= set(domain) if publication.unit.bound is not None else set(domain.drops(publication.source.drops))
    return names, counted | _ruled_attributes(domain)


def _amounts_within_cuts(publication: Publication) -> Iterator[JointAxis]:
    """Yield the joint axes of cuts by which tables count and amounts of their columns, in the order of the domain.

    A sum of several records of a unit can leave the cell in which each of them lies. An amount with ranges by another
    attribute has several steps for one number. So neither has such an axis.
    """
    domain, groups = publication.domain, publication.groups
    if not publication.allows_amounts_within_cuts:
        return
    used = {a for group in groups for a in used_attributes(group.workload)}
    separate = {a for group in groups for a in _with_own_axes(group)}
    separate |= set(publication.unit.sum_within_unit)
    counted = {a for group in groups for a in counted_attributes(group.workload)} - separate
    for amount in (a for a in domain.steps if a in used - separate):
        for name in (a for a in domain if a in counted and domain.column(a) == domain.column(amount)):
            cells = cells_with_amount(domain.axes[name], domain.axes[amount])
            last = sum(domain.steps[amount])
            # With one step in each cell of the cuts, the amount has no range there.
            if sum(j <= last for _, j in cells) > domain.sizes[name]:
                yield JointAxis((name, amount), cells)


def _ruled_attributes(domain: Domain) -> set[str]:
    """Return the attributes of rules; each counter reads them."""
    return {domain.attribute_of(name) for one in domain.ruled_cells for name in one.names}


def _shared_columns(domain: Domain, names: set[str], counted: set[str]) -> Iterator[SharedColumn]:
    """Yield the columns that several attributes read, except for those of too many values to be compared."""
    columns = [domain.column(name) for name in domain]
    for column in shared_columns(domain, names, counted) if len(set(columns)) < len(columns) else ():
        with contextlib.suppress(DomainError):
            _ = column.joint
            yield column


def _ruled_blocks(domain: Domain, names: set[str], counted: set[str]) -> Iterator[tuple[tuple[str, ...], Integers]]:
    """Yield the groups of shown attributes of rules, and of their columns, that are not free of each other."""
    for displayed, cells, all_cells in _ruled_groups(domain, names, counted):
        _refuse_values(domain, displayed, cells, all_cells)
        sizes = [domain.sizes[a] for a in displayed]
        yield from ((tuple(displayed[i] for i in m), rows) for m, rows in dependent_columns(cells, sizes))


def ruled_groups(publication: Publication) -> Iterator[tuple[list[str], Integers, Integers]]:
    """Yield the groups of shown attributes that rules and shared columns connect.

    Each comes with its possible joint cells, of shape (joint cells, attributes), sorted; and with those without the
    rules.

    Args:
        publication: The publication; no data are read.
    """
    return _ruled_groups(publication.domain, *_read_attributes(publication))


def _ruled_groups(domain: Domain, names: set[str], counted: set[str]) -> Iterator[tuple[list[str], Integers, Integers]]:
    ruled_names = {name for one in domain.ruled_cells for name in one.names}
    columns = [
        x
        for x in _shared_columns(domain, names | ruled_names, counted)
        if not _ruled_attributes(domain).isdisjoint(map(domain.attribute_of, x.tabulated))
    ]
    parts = [([one], {*map(domain.attribute_of, one.names)}) for one in domain.ruled_cells]
    for homes in ({*map(domain.attribute_of, x.tabulated)} for x in columns):
        joined = [x for x in parts if not homes.isdisjoint(x[1])]
        merged = [one for ruled, _ in joined for one in ruled], homes.union(*(x for _, x in joined))
        parts = [*(x for x in parts if x not in joined), merged]
    lowest = lowest_names(domain, names)
    for ruled, homes in parts:
        displayed = [lowest[home] for home in domain if home in homes and home in lowest]
        here = [x for x in columns if domain.attribute_of(x.tabulated[0]) in homes]
        if len(displayed) > 1 or (displayed and here):
            cells = _possible_cells(domain, ruled, here, displayed)
            yield displayed, cells, _possible_cells(domain, (), here, displayed)


def _possible_cells(
    domain: Domain, ruled: Sequence[RuledCells], columns: Sequence[SharedColumn], displayed: Sequence[str]
) -> Integers:
    """Return the possible joint cells of the displayed attributes, of shape (joint cells, displayed), sorted.

    Args:
        domain: The domain.
        ruled: The cells that rules leave.
        columns: The columns that several attributes read.
        displayed: The shown attributes and levels.
    """
    listed = {domain.attribute_of(a) for column in columns for a in column.tabulated}
    names = [*displayed, *(name for one in ruled for name in one.names)]
    finest = lowest_names(domain, [a for a in names if domain.attribute_of(a) not in listed])
    # The axes of the mask: the joint cells of a column, or the cells of one attribute.
    axes = [(column.tabulated, column.joint) for column in columns]
    axes += [((a,), np.arange(domain.sizes[a])[:, None]) for a in finest.values()]
    where = {domain.attribute_of(a): (i, j) for i, (part, _) in enumerate(axes) for j, a in enumerate(part)}

    def cells_of(name: str) -> tuple[int, Indices]:
        """Return the axis of an attribute, and its cell for each cell of the axis."""
        i, j = where[domain.attribute_of(name)]
        return i, cells_from_finer(domain, name, axes[i][0][j])[axes[i][1][:, j]]

    shape = [len(cells) for _, cells in axes]
    if math.prod(shape) > MAX_COMPARED_CELLS:
        raise _unplanned(displayed, f"have {math.prod(shape):,} joint cells with the attributes of their columns")
    possible: Mask = np.ones(shape, dtype=bool)
    for one in ruled:
        index = (cells_of(name) for name in one.names)
        possible &= one.possible[tuple(x.reshape([-1 if k == i else 1 for k in range(len(axes))]) for i, x in index)]
    shown_axes = sorted({where[domain.attribute_of(a)][0] for a in displayed})
    possible = np.asarray(possible.any(axis=tuple(i for i in range(len(axes)) if i not in shown_axes)))
    positions = dict(zip(shown_axes, np.nonzero(possible), strict=True))
    rows = np.stack([cells[positions[i]] for i, cells in map(cells_of, displayed)], axis=1)
    return np.asarray(np.unique(rows, axis=0), dtype=np.int64)


def _refuse_values(domain: Domain, displayed: Sequence[str], cells: Integers, all_cells: Integers) -> None:
    """Raise WorkloadError for a value that tables would count, and that occurs in joint cells, but in no possible one.

    Args:
        domain: The domain.
        displayed: The shown attributes and levels.
        cells: Their possible joint cells, of shape (joint cells, displayed).
        all_cells: Those without the rules.
    """
    for i, name in enumerate(displayed):
        excluded = np.setdiff1d(all_cells[:, i], cells[:, i])
        if len(excluded):
            value = domain[name].cell_names[int(excluded[0])]
            raise WorkloadError(
                "rules-exclude-value",
                f"By the rules and the attributes that read the same column, no record has {value!r} of {name!r}.",
                "Each value that a table shows occurs in a possible combination.",
                f"Leave {value!r} out of the domain, or correct the rules.",
                "Nothing was planned.",
                place=name,
            )


def _refuse_source(publication: Publication) -> None:
    """Raise WorkloadError for rules with a series, explicit queries, or a pattern that names their attributes."""
    ruled = _ruled_attributes(publication.domain)
    reasons = (
        (publication.series is not None, "it is a series"),
        (any(_has_matrix(group.workload) for group in publication.groups), "its tables have explicit queries"),
        (
            not ruled.isdisjoint(publication.unit.pattern.names),
            "its promise about records names one of their attributes",
        ),
    )
    reason = next((text for applies, text in reasons if applies), None)
    if ruled and reason is not None:
        raise WorkloadError(
            "rules-unsupported",
            f"The publication has rules about impossible cells, and {reason}.",
            "Rules leave out records in a release of all records together, and a plan by their possible cells has no "
            "axis for each of their attributes.",
            "Remove the series, the promise or the queries. Or remove the rules, and state them after the release "
            "(fn.given).",
            "Nothing was planned.",
        )


def _refuse_questions(publication: Publication) -> None:
    """Raise WorkloadError for a question about impossible records, whose answer the rules give."""
    domain = publication.domain
    for query in publication.questions if domain.rules else ():
        for where in query.in_domain(domain).where:
            cells = dict(where)
            for one in domain.ruled_cells:
                homes = {*map(domain.attribute_of, one.names)}
                # Of several levels of one hierarchy, one is compared.
                by_home = {domain.attribute_of(a): a for a in cells}
                names = in_order(domain, [a for home, a in by_home.items() if home in homes])
                among = one.possible_among(domain, names)[np.ix_(*(cells[a] for a in names))]
                if not among.any():
                    raise WorkloadError(
                        "rules-answer-question",
                        f"By the rules, no record meets a condition of the question {query.name!r}.",
                        "A question costs privacy, and the rules answer this one.",
                        "Remove the question, or correct the rules.",
                        "Nothing was planned.",
                        place=query.name,
                    )


def _refuse_unplanned(publication: Publication, joint: Sequence[JointAxis]) -> None:
    """Raise WorkloadError if tables show attributes of rules jointly, and are not planned on the possible cells."""
    domain = publication.domain.with_joint_axes(joint)
    for group in publication.groups if domain.rules else ():
        names = counted_attributes(group.workload)
        planned = [
            {*domain.axes.attributes_of(x.name)} for x in used_joint_axes(domain, used_attributes(group.workload))
        ]
        homes = {*map(domain.attribute_of, names)}
        for attributes, _ in _ruled_blocks(domain, names, {*homes, *_ruled_attributes(domain)}):
            if not any({*map(domain.attribute_of, attributes)} <= x for x in planned):
                raise _unplanned(attributes, "are shown together, and a table cannot be counted jointly by them")


def _unplanned(attributes: Sequence[str], reason: str) -> WorkloadError:
    return WorkloadError(
        "rules-not-planned",
        f"By the rules, some combinations of {list(attributes)} are impossible. These attributes {reason}.",
        f"A plan counts the possible ones jointly: at most {MAX_RULED_CELLS} combinations of all attributes that are "
        "planned one by one, or of classes of values that rules and tables treat in the same way. No budget or range "
        "may depend on one of the attributes. There may be no explicit queries and no small database, and with classes "
        "no pattern of records, public totals or amounts, and no other noise than Gaussian noise.",
        "Show fewer or coarser attributes, or remove the rules and state them after the release (fn.given).",
        "Nothing was planned.",
    )


def _with_own_axes(group: Publication) -> set[str]:
    """Return the attributes whose cells some setting of a group of tables names: budgets, ranges, periods."""
    settings = set(group.structured_attributes)
    matrices = set(group.domain) if _has_matrix(group.workload) else set()
    return settings | matrices | {a for t, *_ in _templates(group.workload) for a in t.weights(group.domain)}


def _has_matrix(workload: Workload) -> bool:
    return any(template.matrix is not None for template, *_ in _templates(workload))


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
        planners = PLANNERS if name is None else [planner_by_name(name)]
        # Only classes of values can leave no mechanism without a name.
        if (name is not None or any(one.classes)) and all(x.supports(group) is not None for x in planners):
            return False
        has_amounts = not set(group.domain.steps).isdisjoint(used_attributes(group.workload))
        if any(one.classes) and (has_amounts or _has_many_blocks(group.workload, one)):
            return False
        limit = max(MAX_RULED_CELLS if group.domain.rules else MAX_JOINT_CELLS, cells_without)
        # By class, few rows can lie on many cells.
        if any(one.classes) and _structured_rows(group.workload, group.structured_attributes) <= limit:
            limit = max(limit, MAX_CLASS_CELLS)
        if _structured_cells(group.workload, group.structured_attributes) > limit:
            return False
        max_counts = MAX_CLASS_COUNTS if any(one.classes) and group.domain.rules else MAX_COUNTS
        if any(_counts(group.domain, one, *table) > max_counts for table in _templates(group.workload)):
            return False
        if _counts_other_values(group, one) or _sums_zeros(group, one):
            return False
    return True


def _counts_other_values(group: Publication, one: JointAxis) -> bool:
    """Return True if tables show one attribute of a joint axis alone, and values that are in no joint cell.

    They count these values with noise, and other tables show them as 0.
    """
    domain, homes = group.domain, group.domain.axes.attributes_of(one.name)
    used = [a for a in used_attributes(group.workload) if domain.attribute_of(a) in homes]
    is_single = len(set(map(domain.attribute_of, used))) == 1
    return is_single and not all(has_all_values(domain, one, a) for a in used)


def _sums_zeros(group: Publication, one: JointAxis) -> bool:
    """Return True if all amounts of some row of a table are 0, within cuts: its sum needs no noise."""
    domain = group.domain
    if one.name not in domain.steps or one not in used_joint_axes(domain, used_attributes(group.workload)):
        return False
    for template, *_ in _templates(group.workload):
        names = [a for a in one.names if a in template.attributes]
        if not dense(template.query_matrix(domain, one.name, names)).any(axis=1).all():
            return True
    return False


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


def _structured_rows(workload: Workload, separate: Sequence[str]) -> int:
    """Return a bound on the number of independent rows of all tables on the structured cells."""
    domain = workload.domain
    bound = exchangeable_attributes(workload, separate)[1]
    homes = {home for axis in bound for home in attributes_along(domain, axis)}
    labels = classes_along(domain, bound, used_attributes(workload))
    rows: dict[object, int] = {}
    for table in workload.tables:
        sizes = {
            a: int(labels[a].max()) + 1 if a in labels else n
            for a, n in zip(table.attributes, table.shape(domain), strict=True)
            if domain.attribute_of(a) in homes
        }
        rows[tuple((a, table.view(a)) for a in sizes)] = math.prod(sizes.values())
    return sum(rows.values())


def _has_many_blocks(workload: Workload, one: JointAxis) -> bool:
    """Return True if classes of values divide the tables into more blocks than are planned, and no rules need `one`."""
    domain = workload.domain
    pairs = (pair for x in domain.axes.joint.values() for pair in zip(x.names, x.classes, strict=True))
    numbers = {name: max(row) + 1 for name, row in pairs if row}
    blocks = sum(math.prod(numbers.get(a, 1) for a in table.attributes) for table in workload.tables)
    has_rules = not _ruled_attributes(domain).isdisjoint(domain.axes.attributes_of(one.name))
    return blocks > MAX_CLASS_BLOCKS and not has_rules


def _templates(workload: Workload) -> Iterator[tuple[Table, tuple[str, ...], int]]:
    """Yield the tables, each with the attributes of which those of its pattern show some, and their number."""
    for part in workload.tables.parts:
        yield (part.template, part.pattern_attributes, part.order) if isinstance(part, Family) else (part, (), 0)
