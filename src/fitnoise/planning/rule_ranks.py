"""A comparison of ranks: rules about impossible cells can add information to the tables, or none.

W are the queries of all tables. P are the possible cells, and W_P the columns of W there. The rules add no information
to the tables if W and W_P have one rank. All rules count jointly: two rules can add information where neither alone
does. The price can fall all the same, because P has fewer cells.

Two values of an attribute are *interchangeable* under two conditions. Each rule treats them in the same way. The tables
show them value by value, or treat them in the same way. Columns of more than two such values add nothing to the
comparison: each rank is a sum over representations of the group that exchanges them. An attribute without a rule that
tables show value by value needs no columns: ranks are sums over the sets of such attributes
(:mod:`fitnoise.solving.sectors`).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np

from fitnoise.algebra import operators as op
from fitnoise.algebra import rules
from fitnoise.kernel.arrays import Floats, Indices
from fitnoise.planning.joint_axes import ruled_groups
from fitnoise.request.domain import Domain
from fitnoise.request.impossible_rules import Mask
from fitnoise.request.joint_cells import lowest_names
from fitnoise.request.publication import Publication
from fitnoise.request.workloads import Table, used_attributes

MAX_SETS = 2**12
"""The largest number of tables that differ, and of sets of attributes without a rule that they show."""

MAX_VALUES = 2**12
"""The largest number of values of one attribute that are compared with each other."""

MAX_ENTRIES = 2**21
"""The largest number of entries of a matrix whose rank is computed: two seconds."""

RANK_TOLERANCE = 1e-9
"""The part of the largest singular value up to which a singular value is 0."""

_Queries = tuple[op.Operator | bool, ...]
"""The queries of a table along each attribute: True for value by value, False for one query of all values."""

_Group = tuple[tuple[int, ...], Mask]
"""The positions of attributes that rules connect, and two masks in the shape of their cells, (2, …). The first is True
for the possible joint cells. The second is True for all that their columns allow.
"""


def rules_add_nothing(publication: Publication) -> bool:
    """Return True if the rules about impossible cells add no information to the tables.

    The result is False, too, if an amount has a range by another attribute, or if there is too much to compare.

    Args:
        publication: The publication; no data are read.
    """
    publication = publication.with_joint_axes(())
    domain, workloads = publication.domain, [group.workload for group in publication.groups]
    lowest = lowest_names(domain, {a for x in workloads for a in used_attributes(x)})
    axes = [lowest[home] for home in domain if home in lowest]
    tables: set[_Queries] = set()
    for t in (t for x in workloads for t in x.tables):
        tables.add(tuple(_queries(t, domain, axis) for axis in axes))
        if t.weights(domain) or len(tables) > MAX_SETS:
            return False
    groups: list[_Group] = []
    for names, *both in ruled_groups(publication):
        masks = np.zeros((2, *(domain.sizes[a] for a in names)), dtype=bool)
        for mask, cells in zip(masks, both, strict=True):
            mask[tuple(cells.T)] = True
        groups.append((tuple(map(axes.index, names)), masks))
    sizes = [domain.sizes[a] for a in axes]
    return max(sizes, default=0) <= MAX_VALUES and (not groups or _have_equal_ranks(tables, groups, sizes))


def _queries(table: Table, domain: Domain, axis: str) -> op.Operator | bool:
    """Return the queries of a table along an attribute or a level."""
    displayed = [a for a in table.attributes if domain.attribute_of(a) == domain.attribute_of(axis)]
    if not displayed or (displayed == [axis] and table.view(axis).is_by_value):
        return bool(displayed)
    return table.query_matrix(domain, axis, displayed)


def _have_equal_ranks(tables: set[_Queries], groups: Sequence[_Group], sizes: Sequence[int]) -> bool:
    """Return True if the queries have one rank on the possible cells and on all cells that columns allow.

    Args:
        tables: The queries of each table.
        groups: The attributes that rules connect, with their cells; at least one group.
        sizes: The number of values of each attribute.
    """
    ruled = {i for axes, _ in groups for i in axes}
    free = [i for i in range(len(sizes)) if i not in ruled and all(x[i] in (True, False) for x in tables)]
    bound = [i for i in range(len(sizes)) if i not in free]
    # The tables that show all of a set of attributes without columns, for each set that some table shows.
    by_set: dict[tuple[int, ...], set[_Queries]] = {}
    for table in tables:
        displayed = [i for i in free if table[i]]
        for chosen in itertools.chain.from_iterable(
            itertools.combinations(displayed, k) for k in range(len(displayed) + 1)
        ):
            by_set.setdefault(chosen, set()).add(tuple(table[i] for i in bound))
            if len(by_set) > MAX_SETS:
                return False
    values = {i: _representatives(i, {x[i] for x in tables}, groups, sizes[i]) for i in bound}
    allowed = np.ones((2, *(len(values[i]) for i in bound)), dtype=bool)
    for axes, masks in groups:
        # The attributes of a group are in the order of the domain, and so are all.
        shape = [len(values[i]) if i in axes else 1 for i in bound]
        allowed &= masks[np.ix_(np.arange(2), *(values[i] for i in axes))].reshape(2, *shape)
    possible, all_cells = allowed.reshape(2, -1)
    rows = {
        x: [_rows(queries, values[i]) for queries, i in zip(x, bound, strict=True)]
        for x in set[_Queries]().union(*by_set.values())
    }
    for compared in set(map(frozenset, by_set.values())):
        if sum(math.prod(map(len, rows[x])) for x in compared) * len(all_cells) > MAX_ENTRIES:
            return False
        matrix = np.concatenate([rules.dense(op.Kronecker(tuple(map(op.Dense, rows[x])))) for x in compared])
        if _rank(matrix[:, possible]) < _rank(matrix[:, all_cells]):
            return False
    return True


def _representatives(axis: int, queries: set[op.Operator | bool], groups: Sequence[_Group], size: int) -> Indices:
    """Return two values of each class of interchangeable ones, or one if no table shows the attribute by value."""
    features = [np.ones((size, 1)), *(rules.dense(x).T for x in queries if not isinstance(x, bool))]
    for axes, masks in groups:
        if axis in axes:
            features.append(np.moveaxis(masks, 1 + axes.index(axis), 0).reshape(size, -1))
    classes = np.unique(np.concatenate(features, axis=1), axis=0, return_inverse=True)[1].ravel()
    count = 2 if True in queries else 1
    return np.sort(np.concatenate([np.flatnonzero(classes == k)[:count] for k in range(classes.max() + 1)]))


def _rows(queries: op.Operator | bool, values: Indices) -> Floats:
    """Return queries at some values of their attribute, (rows, values)."""
    if isinstance(queries, bool):
        return np.eye(len(values)) if queries else np.ones((1, len(values)))
    return np.asarray(rules.dense(queries)[:, values], dtype=np.float64)


def _rank(matrix: Floats) -> int:
    """Return the numerical rank of queries, whose scales do not matter."""
    largest = np.abs(matrix).max(axis=1)
    scaled = matrix[largest > 0] / largest[largest > 0, None]
    return int(np.linalg.matrix_rank(scaled, rtol=RANK_TOLERANCE))
