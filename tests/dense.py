"""The same objects written out as dense matrices, by code that shares nothing with sectors. Small domains only."""

from functools import reduce

import numpy as np

from fitnoise import rules
from fitnoise.operators import Total


def kron(factors):
    return reduce(np.kron, factors, np.ones((1, 1), dtype=np.int64))


def table_matrix(table, domain):
    """Rows in the released order, columns the cells of the whole domain in C order."""
    if table.matrix is not None:
        return table.matrix.matrix
    factors = [
        rules.dense(table.view(a).operator(domain[a]) if a in table.attributes else Total(domain[a].size))
        for a in domain
    ]
    matrix = kron(factors)
    in_domain_order = [a for a in domain if a in table.attributes]
    sizes = [len(table.view(a).labels(domain[a])) for a in in_domain_order]
    cube = matrix.reshape(*sizes, matrix.shape[1])
    return np.moveaxis(
        cube, [in_domain_order.index(a) for a in table.attributes], range(len(table.attributes))
    ).reshape(matrix.shape)


def workload_matrix(workload):
    return np.concatenate([table_matrix(t, workload.domain) for t in workload.tables])


def workload_variances(workload):
    return np.concatenate([t.variances(workload.domain, workload.confidence).ravel() for t in workload.tables])


def centring(n):
    return np.array([[1, -1]]) if n == 2 else n * np.eye(n, dtype=np.int64) - 1


def cell_order(plan):
    """For each (exchangeable…, structured…) cell the flat cells of the domain it is made of, as a 0/1 matrix."""
    d, domain = plan.decomposition, plan.publication.workload.domain
    kept = [*d.exchangeable, *d.structured]
    axes = [
        np.eye(domain[a].size, dtype=np.int64) if a in kept else np.ones((1, domain[a].size), np.int64) for a in domain
    ]
    matrix = kron(axes)
    sizes = [domain[a].size if a in kept else 1 for a in domain]
    cube = matrix.reshape(*sizes, matrix.shape[1])
    names = list(domain)
    order = [names.index(a) for a in kept] + [i for i, a in enumerate(names) if a not in kept]
    return cube.transpose([*order, len(names)]).reshape(matrix.shape)


def strategy_matrix(plan):
    """(rows, scales): every measured row over the cells (exchangeable…, structured…), Python integers."""
    s = plan.strategy
    blocks, scales = [], []
    for sector in s.sectors:
        free = kron(
            [centring(n) if a in sector.attributes else np.ones((1, n), np.int64) for a, n in enumerate(s.sizes)]
        )
        block = np.kron(free.astype(object), sector.rows.astype(object))
        blocks.append(block)
        scales += [sector.scale] * len(block)
    return np.concatenate(blocks), np.array(scales)
