"""Every design costs the largest change of its answers: one law for all designs."""

import copy
import itertools
from dataclasses import replace

import numpy as np
import pytest

import zoo
from conftest import zoo_plan
from designs import cells_over, of_margins, of_sectors
from fitnoise.errors import PlanError, WorkloadError
from fitnoise.kernel.designs import linear, margins, questions, sectors
from fitnoise.kernel.designs._base import CellStructure
from fitnoise.kernel.designs.graphs import Box, Complete, QueryGraph, Simplex
from laws.designs import check_design, check_loss, same
from refused import refused

ANSWERS = sorted(set(zoo.DESIGNS) - set(zoo.TABLES))
ONE = ["add or remove", "replace"]
"""Neighbours that differ in one record."""


def design_of(name, adjacency):
    """A design of the zoo; None where what it asks is public."""
    if name.startswith("all by") and adjacency.fixes_size:
        with refused("workload.answer-already-public"):
            zoo.DESIGNS[name](adjacency)
        return None
    return zoo.DESIGNS[name](adjacency)


@pytest.mark.no_cover
@pytest.mark.parametrize("neighbours", zoo.ADJACENCIES)
@pytest.mark.parametrize("name", zoo.DESIGNS)
def test_what_is_lost_is_what_neighbours_differ_by(name, neighbours, rng):
    adjacency = zoo.ADJACENCIES[neighbours]
    design = design_of(name, adjacency)
    if design is not None:
        check_design(design, adjacency, rng)


@pytest.mark.parametrize("neighbours", ONE)
@pytest.mark.parametrize(
    "name", ["attribute of one value", "by value", "columns out of order", "crossed", "marginals", "prefix"]
)
def test_what_planners_make_obeys_the_same_law(name, neighbours, rng):
    check_design(zoo_plan(name).table_part.strategy, zoo.ADJACENCIES[neighbours], rng)


@pytest.mark.no_cover
@pytest.mark.parametrize("neighbours", ONE)
def test_of_many_scales_what_is_lost_is_rounded_up(neighbours, rng):
    attributes = [list(itertools.combinations(range(7), k)) for k in range(8)]
    scales = iter(np.arange(3, 19, 1 / 8))
    groups = [([[1]], {s: ([[1]], next(scales)) for s in of_one_size}) for of_one_size in attributes]
    design = of_sectors(cells_over((2,) * 7), *groups)
    assert len(set(design.scales)) == 128 > linear.EXACT_SCALES
    check_design(design, zoo.ADJACENCIES[neighbours], rng)


@pytest.mark.no_cover
@pytest.mark.parametrize("neighbours", [x for x in zoo.ADJACENCIES if "replace" in x])
@pytest.mark.parametrize("name", [x for x in zoo.TABLES if "sectors" in x])
def test_without_a_search_what_is_lost_is_an_upper_bound(name, neighbours, rng, monkeypatch):
    monkeypatch.setattr(sectors, "MAX_REPLACE_PATTERNS", 0)
    check_design(zoo.TABLES[name], zoo.ADJACENCIES[neighbours], rng, exact=False)


@pytest.mark.parametrize("name", zoo.TABLES)
def test_in_small_pieces_it_is_the_same(name, rng, monkeypatch):
    for module in (sectors, linear, margins):
        monkeypatch.setattr(module, "NUMBERS_PER_BATCH", 3)
    check_design(zoo.TABLES[name], zoo.ADJACENCIES["replace, dropped"], rng)


@pytest.mark.no_cover
@pytest.mark.parametrize("neighbours", ONE)
@pytest.mark.parametrize("name", ANSWERS)
def test_an_answer_for_other_neighbours_is_refused_or_covers_them(name, neighbours, rng):
    """Unchanged, and with its integers proven again: for a unit of more records it was not made, and has a price."""
    design = design_of(name, zoo.ADJACENCIES[neighbours])
    for adjacency in zoo.ADJACENCIES.values() if design is not None else ():
        if adjacency.records > 1:
            with refused("plan.mechanism-of-another-question"):
                design.without_cache(adjacency)
        checked = []
        for make in (lambda: design, lambda adjacency=adjacency: design.without_cache(adjacency)):
            try:
                proven = make()
                loss = proven.loss(adjacency)
            except (PlanError, WorkloadError):
                continue
            if not any(loss == other_loss and same(proven, other) for other_loss, other in checked):
                check_loss(make(), adjacency, rng)
                checked.append((loss, proven))


@pytest.mark.parametrize("name", ANSWERS)
def test_what_is_proven_for_a_graph_is_proven_for_its_equals(name):
    """The graph of a question is found again by what it is, not by which object it was."""
    adjacency = zoo.ADJACENCIES["add or remove"]
    design = design_of(name, adjacency)
    graph, loss = design.query.graph(design.domain, adjacency), design.loss(adjacency)
    questions.graph_of.cache_clear()
    assert design.query.graph(design.domain, adjacency) is not graph
    assert design.loss(adjacency) == loss


@pytest.mark.parametrize(
    ("name", "labels", "structure"),
    [
        ("sum by tight constraints", range(-3, 4), Box((7,), (1,))),
        ("sum by tight constraints without a table", range(-3, 4), Box((7,), (3,))),
        ("sum by tight constraints", range(7), Box((7,), (2,))),
        ("sum by tight constraints", range(-3, 4), Complete(7)),
        ("sum by tight constraints", range(-3, 5), Box((8,), (2,))),
        ("counts of everyone by geometric noise", None, Simplex(np.array([[k, 9 - k] for k in range(10)]))),
    ],
)
def test_a_mechanism_for_another_graph_is_refused(name, labels, structure):
    """Other steps, other results, other edges: the proof was about another graph."""
    adjacency = zoo.ADJACENCIES["add or remove"]
    design = zoo.DESIGNS[name](adjacency)
    mechanism = copy.copy(design.mechanism)
    other = QueryGraph(mechanism.graph.results if labels is None else labels, structure)
    vars(mechanism)["graph"] = other
    with refused("plan.mechanism-of-another-question"):
        replace(design, mechanism=mechanism).loss(adjacency)


@pytest.mark.parametrize(
    ("exchangeable", "structured"), [((("a", 2), ("a", 2)), ()), ((), (("a", 2), ("a", 3))), ((("a", 2),), (("a", 2),))]
)
def test_an_attribute_has_one_place_in_a_design(exchangeable, structured):
    """Two would be cells in which no record lies, or a record that lies in two."""
    with refused("plan.design-attribute-twice"):
        CellStructure(exchangeable, structured)


def test_integers_too_large_to_be_compared_are_not_priced_for_replacing():
    design = of_margins(cells_over((), 1), 1.0, ((), np.full((2**21 + 1, 1), 2**40 - 1)))
    assert design.loss(zoo.ADJACENCIES["add or remove"]).epsilon == (2**21 + 1) * (2**40 - 1)
    with refused("plan.margin-distances-too-large"):
        design.loss(zoo.ADJACENCIES["replace"])
