"""Decompositions as dense matrices, by code that shares nothing with sectors. Small domains only."""

import math
from dataclasses import dataclass, replace
from functools import lru_cache, reduce

import numpy as np
import pytest
import scipy.sparse as sp

from fitnoise.algebra import rules
from fitnoise.algebra.operators import Total
from fitnoise.kernel.designs.margins import NOISE_VARIANCE, PureStrategy
from fitnoise.kernel.designs.products import ProductStrategy
from fitnoise.kernel.designs.sectors import StrategyGroup
from fitnoise.kernel.designs.trees import TreeStrategy
from fitnoise.mechanisms.rebuilding import RebuiltTables
from fitnoise.reading.linear_forms import Forms
from fitnoise.solving.certificates import NO_RECORD
from fitnoise.solving.meeting_pairs import LARGEST_SHARE, MIXED, agreements


def kron(factors):
    return reduce(np.kron, factors, np.ones((1, 1), dtype=np.int64))


def table_matrix(table, domain):
    """Rows in the released order, columns the cells of the whole domain in C order."""
    if table.matrix is not None:
        return table.matrix.matrix
    attribute_of = {domain.attribute_of(a): a for a in table.attributes}
    factors = [
        rules.dense(table.view(attribute_of[a]).operator(domain[attribute_of[a]])) @ merging(domain, a, attribute_of[a])
        if a in attribute_of
        else rules.dense(Total(domain[a].size))
        for a in domain
    ]
    matrix = kron(factors) * counting_for(table, domain)
    in_domain_order = [attribute_of[a] for a in domain if a in attribute_of]
    sizes = [len(table.view(a).labels(domain[a])) for a in in_domain_order]
    cube = matrix.reshape(*sizes, matrix.shape[1])
    return np.moveaxis(
        cube, [in_domain_order.index(a) for a in table.attributes], range(len(table.attributes))
    ).reshape(matrix.shape)


def counting_for(table, domain):
    """Return the weight of a record in each cell of the domain, (cells,).

    It is the step of the class for amounts whose range depends on a class, and otherwise 1.
    """
    out = np.ones(domain.shape)
    for a in table.summed:
        if getattr(domain[a], "range_attribute", None) is not None:
            axis = list(domain).index(domain[a].range_attribute)
            size = np.array([(x.high - x.low) / x.max_step for x in domain[a].exact.classes], dtype=float)
            out = out * size.reshape([-1 if i == axis else 1 for i in range(len(domain))])
    return out.ravel() if (out != 1).any() else 1


def merging(domain, attribute, level):
    """Return the 0/1 matrix with the cells of an attribute in each cell of one of its levels, or of itself."""
    if level == attribute:
        return np.eye(domain[attribute].size, dtype=np.int64)
    cells = [domain[level].cell(leaf) for leaf in domain[attribute].values]
    return np.equal.outer(np.arange(domain[level].size), cells).astype(np.int64)


def workload_matrix(workload):
    return np.concatenate([table_matrix(t, workload.domain) for t in workload.tables])


def workload_variances(workload):
    return np.concatenate([t.variances(workload.domain, workload.confidence).ravel() for t in workload.tables])


def centring(n):
    return np.array([[1, -1]]) if n == 2 else n * np.eye(n, dtype=np.int64) - 1


def cell_order(plan):
    """For each (exchangeable…, structured…) cell the flat cells of the domain it is made of, as a 0/1 matrix."""
    d, domain = plan.table_part.decomposition, plan.publication.workload.domain
    structure = [*d.exchangeable, *d.structured]
    axes_of = {a: [k for k in domain.sizes if k in structure and domain.attribute_of(k) == a] for a in domain}
    axes_of = {a: sorted(axes, key=domain.depth) for a, axes in axes_of.items()}
    axes = []
    for a in domain:  # the shares of a hierarchy, from the top down, are its deepest level
        if (
            len(axes_of[a]) > 1 and axes_of[a][1] in domain
        ):  # each level as an attribute of its own: most cells hold no leaf
            levels = [merging(domain, a, level) for level in axes_of[a]]
            axes.append(reduce(lambda x, y: (x[:, None] * y).reshape(-1, y.shape[1]), levels))
            continue
        level = domain[a].levels[domain.depth(axes_of[a][-1])] if len(axes_of[a]) > 1 else (*axes_of[a], None)[0]
        axes.append(np.ones((1, domain[a].size), np.int64) if level is None else merging(domain, a, level))
    matrix = kron(axes)
    names = [k for a in domain for k in axes_of[a]]
    cube = matrix.reshape(*(domain.sizes[k] for k in names), matrix.shape[1])
    return cube.transpose([*(names.index(k) for k in structure), len(names)]).reshape(matrix.shape)


def strategy_matrix(plan):
    """(rows, scales): every measured row over the cells (exchangeable…, structured…), Python integers."""
    s = plan.table_part.strategy
    blocks, scales = [], []
    if isinstance(s, PureStrategy):
        for m in s.measured:
            free = kron(
                [
                    np.eye(n, dtype=np.int64) if a in m.attributes else np.ones((1, n), np.int64)
                    for a, n in enumerate(s.sizes)
                ]
            )
            blocks.append(np.kron(free.astype(object), m.rows.astype(object)))
        rows = np.concatenate(blocks)
        return rows, np.full(len(rows), s.scale)
    if isinstance(s, ProductStrategy):
        for g, set_scales in zip(s.groups, s.by_set([g.scales for g in s.groups]), strict=True):
            for axes, m, scale in zip(g.attributes.tolist(), g.multiples.tolist(), set_scales, strict=True):
                measured = [centring(n) if f.rows is None else f.rows for f, n in zip(s.factors, s.sizes, strict=True)]
                block = np.ones((1, 1), dtype=object)
                for a, n in enumerate(s.sizes):
                    block = np.kron(block, (measured[a] if a in axes else np.ones((1, n), np.int64)).astype(object))
                blocks.append(m * block)
                shape = [len(measured[a]) for a in axes]
                scales += np.broadcast_to(scale, shape).ravel().tolist()
        return np.concatenate(blocks), np.array(scales)
    if isinstance(s, TreeStrategy):
        return _trees_matrix(s)
    for sector in s.sectors:
        free = kron(
            [centring(n) if a in sector.attributes else np.ones((1, n), np.int64) for a, n in enumerate(s.sizes)]
        )
        block = np.kron(free.astype(object), sector.rows.astype(object))
        blocks.append(block)
        scales += [sector.scale] * len(block)
    return np.concatenate(blocks), np.array(scales)


def _trees_matrix(s):
    blocks, scales = [], []
    for g in s.groups:
        sums = np.eye(len(s.classes[g.deep]), dtype=object)
        by_level = {g.deep: sums}
        for level in range(g.deep, 0, -1):
            up = np.zeros((len(s.classes[level - 1]), len(sums)), dtype=object)
            up[s.above[level - 1], np.arange(len(sums))] = g.factors[level - 1][s.classes[level]]
            by_level[level - 1] = sums = up @ sums
        for level, level_scales in g.scales.items():
            for index in np.argsort(s.classes[level], kind="stable").tolist():
                block = np.full((1, 1), g.multiple, dtype=object)
                for a, n in enumerate(s.sizes):
                    factor = centring(n) if a in g.attributes else np.ones((1, n), np.int64)
                    factor = by_level[level][[index]] if g.deep and a == s.levels[g.deep - 1] else factor
                    block = np.kron(block, factor.astype(object))
                blocks.append(block)
                scales += [level_scales[s.classes[level][index]]] * len(block)
    return np.concatenate(blocks), np.array(scales)


def split(plan, answers):
    """The answers of every sector, from those of the groups; of a pure plan, of every margin."""
    if isinstance(plan.table_part.strategy, PureStrategy):
        return list(answers)
    if isinstance(plan.table_part.strategy, ProductStrategy):
        return np.split(np.concatenate(answers), np.cumsum(plan.table_part.strategy.portions)[:-1])
    is_tree = isinstance(plan.table_part.strategy, TreeStrategy)
    counts = plan.table_part.strategy.counts if is_tree else [g.answers for g in plan.table_part.strategy.groups]
    return [x for y, n in zip(answers, counts, strict=True) for x in np.split(y, np.cumsum(n)[:-1])]


def layouts(d):
    """Return the layout of every table of a decomposition."""
    return [d.layout(t) for t in range(sum(len(g.tables) for g in d.tables))]


@dataclass(frozen=True)
class Sector:
    """One sector of a decomposition: the tables A ⊇ S and their lifts L_{A,S}."""

    attributes: tuple
    sizes: tuple
    basis: np.ndarray
    members: tuple
    lifts: tuple

    @property
    def multiplicity(self):
        return math.prod(n - 1 for n in self.sizes)


def sectors_of(d):
    """The sectors of a decomposition one by one, in the order of its groups."""
    out = []
    for g in d.groups:
        for i, (attributes, sizes) in enumerate(zip(g.attributes.tolist(), g.sizes.tolist(), strict=True)):
            entries = [(int(d.tables[m.tables].tables[t]), m.lift) for m in g.members for t in m.incidence[[i]].indices]
            entries.sort(key=lambda pair: pair[0])
            out.append(Sector(tuple(attributes), tuple(sizes), g.basis, *map(tuple, zip(*entries, strict=True))))
    return out


def rebuilt_tables(plan, answers, records=None):
    """Every table of a plan by name, from noisy answers and the number of records, if that is public."""
    names = plan.publication.workload.tables.names
    totals = None if plan.publication.public is None or records is None else np.array(float(records))
    stacks = RebuiltTables(plan.table_part, answers, totals).stacks()
    by_index = {int(t): x for which, stack in stacks for t, x in zip(which, stack, strict=True)}
    return {name: by_index[i] for i, name in enumerate(names)}


def rebuilt_releases(plan, answers):
    """Return the tables of many releases by name, (count, shape…), from the noisy answers of each group, (count, k).

    The function rebuilds each answer alone and multiplies it by its value. The first releases, rebuilt directly,
    confirm the result.
    """
    silent = [np.zeros(a.shape[1], dtype=np.int64) for a in answers]
    releases = dict.fromkeys(plan.publication.workload.tables.names, 0)
    for g, values in enumerate(answers):
        units = (
            rebuilt_tables(plan, [*silent[:g], one, *silent[g + 1 :]]) for one in np.eye(len(silent[g]), dtype=int)
        )
        single = list(units)
        for name in releases if single else ():
            releases[name] = releases[name] + np.tensordot(values, np.stack([unit[name] for unit in single]), axes=1)
    for i in range(10):
        for name, x in rebuilt_tables(plan, [a[i] for a in answers]).items():
            assert releases[name][i] == pytest.approx(x, rel=1e-9, abs=1e-9 * np.abs(x).max())
    return releases


def group_of(*sectors):
    """Sectors of one basis as a group of a strategy."""
    sector = sectors[0]
    width = len(sector.attributes)
    attributes = np.array([s.attributes for s in sectors], dtype=np.intp).reshape(len(sectors), width)
    sizes = np.array([s.sizes for s in sectors], dtype=np.int64).reshape(len(sectors), -1)
    scales = np.array([s.scale for s in sectors])
    return StrategyGroup(attributes, sizes, sector.basis, np.stack([s.mixing for s in sectors]), scales)


def with_sectors(strategy, sectors):
    """The strategy with its sectors changed, one by one."""
    remaining = iter(sectors)
    groups = [group_of(*[next(remaining) for _ in range(len(g))]) for g in strategy.groups]
    return replace(strategy, groups=tuple(groups))


def least_squares(plan):
    """The cells (exchangeable…, structured…) from the measurements, in units of their noise: generalised least squares.

    By singular values, not their squares: targets may differ by much. Where the number of records is public, it is 0.
    """
    rows, scales = strategy_matrix(plan)
    deviations = scales * (np.sqrt(NOISE_VARIANCE) if isinstance(plan.table_part.strategy, PureStrategy) else 1.0)
    held = cell_order(plan).any(axis=1)  # no record lies elsewhere, and everyone knows
    out = np.zeros(rows.shape[::-1])
    measured_rows = (rows[:, held] / deviations[:, None]).astype(float)
    if plan.publication.public is not None:
        measured_rows -= measured_rows.mean(axis=1, keepdims=True)
    out[held] = np.linalg.pinv(measured_rows, rcond=1e-11)
    return out


def merged_matrix(plan):
    """The workload over the cells (exchangeable…, structured…): every table is constant on the cells merged."""
    merge = cell_order(plan)
    summed = (sp.csr_array(merge) @ workload_matrix(plan.publication.workload).T).T
    return summed / np.maximum(merge.sum(axis=1), 1)


@lru_cache(maxsize=2)
def numbers_by_least_squares(plan):
    """Every number of the workload from the measurements, in units of their noise. Kept: laws look at it in turn."""
    return merged_matrix(plan) @ least_squares(plan)


def shared_out(plan, x):
    """One number per row of each table, split evenly among the published numbers the row stands for."""
    d, workload = plan.table_part.decomposition, plan.publication.workload
    out = []
    for table, layout in zip(workload.tables, layouts(d), strict=True):
        outer = tuple(d.sizes[a] for a in layout.axes)
        if isinstance(plan.table_part.strategy, ProductStrategy):  # of which one row stands for a table
            numbers = math.prod(table.shape(workload.domain))
            out.append(np.full(numbers, x[layout.rows][0] / numbers))
            continue
        inner = x[layout.rows].reshape(layout.inner_shape) / math.prod(outer)
        each = np.broadcast_to(inner, outer + layout.inner_shape).transpose(layout.transpose)
        assert each.size == math.prod(table.shape(workload.domain))
        out.append(each.ravel())
    return np.concatenate(out)


def moment(d, p, pairs=None):
    """diag(p), or Σ p (e_i − e_j)(e_i − e_j)ᵀ, each averaged over all the cells, or pairs of cells, of its kind."""
    copies = math.prod(d.sizes)
    if pairs is None:
        return np.diag(np.tile(p, copies) / copies)
    out = np.zeros((copies * d.cells, copies * d.cells))
    for weight, (agree, one, other) in zip(p, pairs.keys(), strict=True):
        e = np.eye(d.cells)
        if other == NO_RECORD:
            out += weight * np.diag(np.tile(e[one], copies) / copies)
            continue
        factors = [np.eye(n) if agree >> a & 1 or n == 1 else 1 - np.eye(n) for a, n in enumerate(d.sizes)]
        each = np.kron(kron(factors), np.outer(e[one], e[other]))
        each *= weight / each.sum()
        out += np.diag(each.sum(axis=0) + each.sum(axis=1)) - each - each.T
    return out


def dense_bound(plan, evidence, terms):
    """Return the bound that evidence proves for a plan, from matrices over all cells and all published numbers."""
    d = plan.table_part.decomposition
    p, c = terms.factor * evidence.cells / evidence.cells.sum(), workload_variances(plan.publication.workload)
    if terms.relative is not None:
        p = np.where(terms.relative > 0, p / np.where(terms.relative > 0, terms.relative, 1), 0)
    omega = None if terms.weights is None else shared_out(plan, terms.weights)
    if omega is None:
        w = shared_out(plan, evidence.numbers / evidence.numbers.sum()) / c
    elif terms.trade is None:
        w = omega / (omega @ c)
    else:
        w = shared_out(plan, evidence.numbers) / c + terms.trade * omega
    values, vectors = np.linalg.eigh(moment(d, p, evidence.pairs))
    root = vectors * np.sqrt(np.maximum(values, 0))
    nu = np.linalg.svd(np.sqrt(w)[:, None] * merged_matrix(plan) @ root, compute_uv=False).sum()
    return nu**2 if terms.trade is None else 2 * nu - evidence.numbers.sum()


def pair_costs(gram):
    """Squared distances between the columns of a strategy with this Gram matrix."""
    squares = gram.diagonal()
    return squares[:, None] + squares - 2 * gram


def joined(forms):
    """Return the rows of several forms, one after the other."""
    pieces = {}
    for key in dict.fromkeys(key for f in forms for key in f.pieces):
        width = int(np.prod(key[0].shape(key[1]), dtype=np.int64))
        blocks = [f.pieces.get(key, sp.csr_array((f.length, width))) for f in forms]
        pieces[key] = sp.csr_array(sp.vstack(blocks, format="csr"))
    return Forms(sum(f.length for f in forms), pieces)


def pair_law(problem, evidence):
    """Return the law of pairs that weights state, from the words of `solving/meeting_pairs.py`, with no places merged.

    The result is p of the leaves, and the weights of kinds of pairs on one leaf, (K,). Between these is for each level
    the share of each kind, (K,), with the probabilities of ordered pairs of leaves that meet there, (n, n).
    """
    tree, deep, n = problem.tree, len(problem.above), problem.sizes
    leaves = np.arange(n[-1])
    ancestors = {deep: leaves}
    for level in range(deep, 0, -1):
        ancestors[level - 1] = problem.above[level - 1][ancestors[level]]
    p = (evidence.cells / evidence.cells.sum() / tree.counts[-1])[tree.class_of[-1]]
    sizes = [len(x) for x in tree.counts]
    weights = np.split(evidence.meetings, np.cumsum([*sizes[1:], *sizes[:-1]])[:-1])
    kinds = evidence.kinds.reshape(deep + 1, -1).copy()
    can_meet = [np.bincount(x, minlength=n[i]) > 1 for i, x in enumerate(problem.above)]
    kinds[[i for i, x in enumerate(can_meet) if not x.any()]] = 0
    if kinds.shape[1] == 2:
        kinds[-1] = 0  # records of one leaf that differ in nothing
    kinds /= kinds.sum()
    chi = agreements(problem)
    out = []
    for level in range(deep):
        shares = kinds[level] / max(kinds[level].sum(), 1e-300) * (1 - MIXED)
        shares[0] += MIXED
        limit = LARGEST_SHARE / (1 + max(0, -(chi @ shares).min()))
        pairs = np.zeros((n[-1], n[-1]))
        mu = np.where(can_meet[level], (weights[deep + level] / tree.counts[level])[tree.class_of[level]], 0)
        # A class that cannot meet has none of the weight of its level.
        counted = [x for x, here in zip(mu, can_meet[level], strict=True) if here]
        mu = mu / sum(counted) * kinds[level].sum() if counted else mu
        for g in np.flatnonzero(can_meet[level]):
            children = np.flatnonzero(problem.above[level] == g)
            s = weights[level][tree.class_of[level + 1][children]].copy()
            big = int(np.argmax(s))
            s[big] = min(s[big], limit / (1 - limit) * (s.sum() - s[big]))
            both = np.outer(s, s) - np.diag(s**2)
            inside = ancestors[level + 1] == children[:, None]
            leaf_shares = inside * p / (inside * p).sum(axis=1, keepdims=True)
            pairs += mu[g] * leaf_shares.T @ (both / max(both.sum(), 1e-300)) @ leaf_shares
        out.append((shares, pairs))
    return p, out, kinds[-1]
