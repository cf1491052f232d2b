"""Designs and plans that the tests construct directly."""

import itertools
import math
from dataclasses import replace
from functools import cache

import numpy as np

import fitnoise as fn
from fitnoise.kernel.designs._base import CellStructure
from fitnoise.kernel.designs.answers import AnswerDesign
from fitnoise.kernel.designs.margins import MeasuredMargin, PureStrategy
from fitnoise.kernel.designs.products import Factor, ProductGroup, ProductStrategy
from fitnoise.kernel.designs.query_blocks import INT64_SAFE_LIMIT, largest_entry
from fitnoise.kernel.designs.sectors import Strategy, StrategyGroup
from fitnoise.kernel.designs.trees import MeasuredTree, TreeStrategy
from fitnoise.mechanisms.finite.ranks import by_ranks
from fitnoise.mechanisms.gaussian.mechanism import GAUSSIAN
from fitnoise.mechanisms.laplace.mechanism import LAPLACE
from fitnoise.mechanisms.projection.mechanism import PROJECTION
from fitnoise.mechanisms.tables import TablePart
from fitnoise.planning.plan import Plan
from fitnoise.solving.witnesses import claimed


def unit_cost(design, adjacency):
    """Return the cost of one unit, at the smallest price that planning finds and the kernel proves."""
    return claimed(design, adjacency).unit_cost(adjacency)


def unit_profile(design, adjacency):
    """Return the cost of one unit by cell, at the smallest price that planning finds and the kernel proves."""
    return claimed(design, adjacency).unit_profile(adjacency)


def cells_over(sizes, *cells):
    """Return cells of exchangeable attributes a0, a1, … and of structured ones, o or o0, o1, …, of given sizes."""
    names = ["o"] if len(cells) == 1 else [f"o{i}" for i in range(len(cells))]
    return CellStructure(tuple((f"a{i}", n) for i, n in enumerate(sizes)), tuple(zip(names, cells, strict=True)))


def with_steps(cells, **steps):
    """Return the cells with some structured attributes as amounts, with the given steps from knot to knot."""
    return replace(cells, steps=tuple(steps.items()))


def group(sizes, basis, sectors):
    """Sectors over one basis: {attributes: (mixing, scale)}, of attributes of these sizes."""
    width = len(next(iter(sectors)))
    attributes = np.array(list(sectors), dtype=np.intp).reshape(len(sectors), width)
    mixing = np.array([m for m, _ in sectors.values()], dtype=object)
    mixing = mixing.astype(np.int64) if largest_entry(mixing) < INT64_SAFE_LIMIT else mixing
    scales = np.array([float(s) for _, s in sectors.values()])
    return StrategyGroup(attributes, np.array(sizes, dtype=np.int64)[attributes], np.array(basis), mixing, scales)


def answer_count(sector):
    """Return the number of noisy answers of a sector by itself."""
    return len(sector.basis) * math.prod(1 if n == 2 else n for n in sector.sizes)


def of_sectors(cells, *groups):
    """A design of sectors, each group as a basis and its sectors."""
    return Strategy(cells, tuple(group(cells.sizes, basis, rows) for basis, rows in groups))


def of_margins(cells, scale, *margins):
    """A design of margins, each as attributes and queries."""
    return PureStrategy(cells, tuple(MeasuredMargin(a, np.array(rows)) for a, rows in margins), scale)


def of_products(cells, factors, *groups):
    """A design of products: factors as rows or None, each group as {attributes: (multiple, scale or scales)}."""
    factor_list = [Factor(None if rows is None else np.array(rows)) for rows in factors]
    product_groups = [
        ProductGroup(
            np.array(list(terms), dtype=np.intp).reshape(len(terms), len(next(iter(terms)))),
            np.array([m for m, _ in terms.values()]),
            np.concatenate([np.ravel(s) for _, s in terms.values()]).astype(float),
        )
        for terms in groups
    ]
    return ProductStrategy(cells, tuple(factor_list), tuple(product_groups))


def of_trees(cells, levels, above, classes, *trees):
    """Return a design of trees.

    Args:
        cells: Cells of all attributes.
        levels: Levels, by position.
        above: Place above each place, from the first level on.
        classes: Class of each place, from the first level on.
        trees: Measured trees, as (attributes, multiple, k by class and level, {level: scales by class}).
    """
    measured = [
        MeasuredTree(a, m, tuple(map(np.array, k)), {x: np.array(s, float) for x, s in scales_at.items()})
        for a, m, k, scales_at in trees
    ]
    places = (np.zeros(1, dtype=np.intp), *map(np.array, classes))
    return TreeStrategy(cells, levels, tuple(map(np.array, above)), places, tuple(measured))


def answer(domain, query, make):
    """A question by adjacency, answered by what is made for its graph and its ε."""

    def build(adjacency):
        return AnswerDesign(
            query.in_domain(domain),
            domain.axes,
            make(query.graph(domain, adjacency), query.terms.record_epsilon(adjacency)),
        )

    build.stated = domain, query
    return build


def ranked(domain, query):
    """A median or a quantile by adjacency, answered by ranks."""

    def build(adjacency):
        return AnswerDesign(
            query.in_domain(domain),
            domain.axes,
            by_ranks(
                query.graph(domain, adjacency), query.terms.record_epsilon(adjacency), query.terms.ranks(adjacency)
            ),
        )

    build.stated = domain, query
    return build


def domain_of(design):
    """Return the axes of a question, or for tables those with their attributes in reverse order and one more.

    An amount has a value for every step, and one for each cell without a knot.
    """
    return design.domain if isinstance(design, AnswerDesign) else attributes_of(design).axes


def attributes_of(design):
    """Return the domain of attributes whose axes `domain_of` returns for tables."""
    return _shown_domain((*design.structure.exchangeable, *design.structure.structured), design.structure.steps)


@cache
def _shown_domain(attributes, steps):
    """Return the domain of the attributes. The cache computes it once for all tables and laws."""
    sizes = {a: n + sum(dict(steps).get(a, ())) - len(dict(steps).get(a, ())) for a, n in attributes}
    return fn.Domain({name: fn.Ordered(1, sizes[name]) for name in reversed(sizes)} | {"unused": fn.Ordered(0, 0)})


def steps_of(design):
    """K_s of the amounts of a design, by name."""
    return {} if isinstance(design, AnswerDesign) else dict(design.structure.steps)


def possible_cells(design, names, position):
    """Return the joint cells that may hold a record: for an amount between knots, those of both knots."""
    parts = []
    for a, code in zip(names, position, strict=True):
        pieces = steps_of(design).get(a, ())
        knots = [sum(pieces[:s]) for s in range(len(pieces) + 1)]
        segments = [s for s, (x, y) in enumerate(itertools.pairwise(knots)) if x < code < y]
        excess = max(code - sum(pieces), 0)
        parts.append(
            [segments[0], segments[0] + 1] if segments else [len(pieces) + excess if excess else knots.index(code)]
        )
        parts[-1] = parts[-1] if pieces else [code]
    return list(itertools.product(*parts))


def plan_of(publication, strategy, evidence, status, setting=None):
    """A plan for tables of one part, with this strategy in sectors or by margin."""
    (request,) = publication.groups
    unbiased = LAPLACE if request.privacy is fn.Privacy.PURE else GAUSSIAN
    mechanism = unbiased if request.small_database is None else PROJECTION
    return Plan.from_parts(publication, [TablePart(mechanism, request, strategy, evidence, status, setting)])


def remade(plan, *, publication=None, finite=None, **part):
    """A plan with another publication, other mechanisms for its questions, or another strategy, evidence, …"""
    new = publication or plan.publication
    groups = [replace(p, publication=request, **part) for p, request in zip(plan.groups, new.groups, strict=True)]
    return Plan.from_parts(new, groups, [q.mechanism for q in plan.questions] if finite is None else finite)
