"""Measured margins: their parts, up to the largest allowed number, and their costs, computed manually."""

import math
from fractions import Fraction

import numpy as np
import pytest

from designs import cells_over, of_margins
from fitnoise.kernel.designs import margins
from fitnoise.kernel.designs._base import INT64_SAFE_BOUND
from fitnoise.kernel.designs.margins import MAX_NOISE_SCALE, MeasuredMargin, PureStrategy
from fitnoise.kernel.units import Adjacency, Neighbours, PrivacyUnit
from refused import refused

ADD, REPLACE = Neighbours.ADD_OR_REMOVE_ONE, Neighbours.REPLACE_ONE
ONE = MeasuredMargin((), np.array([[1]]))


@pytest.mark.parametrize(
    ("attributes", "rows", "code"),
    [
        ((), np.ones(3, dtype=np.int64), "plan.margin-rows-not-integers"),
        ((), np.ones((1, 1, 3), dtype=np.int64), "plan.margin-rows-not-integers"),
        ((), np.ones((1, 3), dtype=np.int32), "plan.margin-rows-not-integers"),
        ((), np.ones((1, 3), dtype=object), "plan.margin-rows-not-integers"),
        ((), np.ones((0, 3), dtype=np.int64), "plan.margin-rows-not-integers"),
        ((), np.ones((1, 0), dtype=np.int64), "plan.margin-rows-not-integers"),
        ((), np.array([[2**40]]), "plan.margin-rows-too-large"),
        ((), np.array([[0, -(2**40)]]), "plan.margin-rows-too-large"),
        ((), np.array([[1, 0], [0, 0]]), "plan.margin-row-zero"),
        ((1, 0), np.array([[1]]), "plan.attributes-not-increasing"),
        ((0, 0), np.array([[1]]), "plan.attributes-not-increasing"),
    ],
)
def test_what_is_no_margin(attributes, rows, code):
    with refused(code):
        MeasuredMargin(attributes, rows)


def test_a_margin_is_a_frozen_copy():
    rows = np.array([[2**40 - 1, -(2**40) + 1], [0, 5]])
    margin = MeasuredMargin([0, 2], rows)
    rows[0] = 7
    assert margin.rows.tolist() == [[2**40 - 1, -(2**40) + 1], [0, 5]]
    assert margin.attributes == (0, 2)
    assert margin.column_sums.tolist() == [2**40 - 1, 2**40 + 4]
    with pytest.raises(ValueError, match="read-only"):
        margin.rows[0] = 7


@pytest.mark.parametrize(
    ("cells", "margins", "code"),
    [
        (cells_over((), 1), (), "plan.margins-misfit-domain"),
        (cells_over((), 2), (ONE,), "plan.margins-misfit-domain"),
        (cells_over((2,), 1), (MeasuredMargin((1,), np.array([[1]])),), "plan.margins-misfit-domain"),
        (cells_over((2,), 1), (MeasuredMargin((-1,), np.array([[1]])),), "plan.margins-misfit-domain"),
        (cells_over((2,), 1), (ONE, MeasuredMargin((0, 1), np.array([[1]]))), "plan.margins-misfit-domain"),
        (cells_over((2,), 1), (ONE, ONE), "plan.measured-twice"),
    ],
)
def test_what_is_no_strategy_of_margins(cells, margins, code):
    with refused(code):
        PureStrategy(cells, margins, 1.0)


@pytest.mark.parametrize("scale", [0.0, -1.0, math.nan, math.inf, math.nextafter(MAX_NOISE_SCALE, math.inf), 1])
def test_a_scale_that_no_sampler_draws_is_refused(scale):
    for good in (5e-324, 0.5, 1.0, MAX_NOISE_SCALE):
        assert PureStrategy(cells_over((), 1), (ONE,), good).rate == 1 / Fraction(good)
    with refused("plan.noise-out-of-range"):
        PureStrategy(cells_over((), 1), (ONE,), scale)


def test_margins_by_hand():
    margins = ((), [[1, -2, 0]]), ((0,), [[3, 0, 0], [0, 1, 1]]), ((0, 1), [[0, 0, 4]])
    design = of_margins(cells_over((2, 1), 3), 8.0, *margins)
    assert design.lengths == (1, 2 * 2, 2)
    assert design.portions.tolist() == [1, 4, 2]
    assert sum(design.lengths) == 7
    assert design.scales.tolist() == [8.0] * 3
    assert design.profile() == (Fraction(4, 8) ** 2, Fraction(3, 8) ** 2, Fraction(5, 8) ** 2)
    assert design.step(ADD) == 5
    # in the last cell from one value of the first attribute to the other: nothing of the total, 1 + 1, 4 + 4
    assert design.step(REPLACE) == 10
    for neighbours, drops, records, step in [(ADD, False, 3, 5), (REPLACE, False, 1, 10), (REPLACE, True, 2, 10)]:
        adjacency = Adjacency(PrivacyUnit("person", records, neighbours), drops=drops)
        assert design.unit_epsilon(adjacency) == design.loss(adjacency).epsilon == Fraction(records * step, 8)
        assert design.loss(adjacency).by_cell == (neighbours is ADD)
    assert design.magnitude(10) == 40
    documents = [{"of": [], "queries": 1}, {"of": ["a0"], "queries": 2}, {"of": ["a0", "a1"], "queries": 1}]
    assert design.ledger_detail(adjacency) == {"margins": documents, "numbers": [None]}
    extra = Fraction(1, 256)
    assert design.laws(Adjacency()) == [[(Fraction(1, 8) + extra, 1), (Fraction(4, 8) + extra, 1)]]
    assert design.ledger_detail(Adjacency()) == {"margins": documents, "numbers": [[[["33/256", 1], ["129/256", 1]]]]}


def test_if_all_is_measured_of_everyone_adding_a_record_costs_more_than_replacing_one():
    """So the charge is that of adding a record if a record can come or go."""
    design = of_margins(cells_over((), 2), 1.0, ((), [[5, 4]]))
    assert (design.step(ADD), design.step(REPLACE)) == (5, 1)
    unit = PrivacyUnit("person", 1, REPLACE)
    assert design.unit_epsilon(Adjacency(unit)) == 1
    assert design.unit_epsilon(Adjacency(unit, drops=True)) == 5


@pytest.mark.parametrize("rows", [1, 2**13 + 1])
def test_sums_above_what_doubles_hold_are_exact(rows):
    """For equal cells, and for one in ten that differs."""
    large, small = 2**40 - 1, 2 - 2**40
    for others in ([], [0] * 18):
        design = of_margins(cells_over((), 2 + len(others)), 1.0, ((), [[large, small, *others]] * rows))
        assert design.step(ADD) == rows * large
        assert design.step(REPLACE) == rows * (large - small)
    of_values = of_margins(cells_over((2,), 1), 1.0, ((0,), [[large]] * rows))
    assert of_values.step(REPLACE) == 2 * rows * large


def test_answers_are_of_64_bits_as_long_as_they_fit():
    design = of_margins(cells_over((), 1), 1.0, ((), [[1]]))
    assert design.magnitude(7) == 7
    for records, kind in [(1, np.int64), (INT64_SAFE_BOUND - 1, np.int64), (INT64_SAFE_BOUND, object)]:
        (answers,) = design.exact_answers({(): np.array(5)}, Adjacency(), records)
        assert (answers.dtype, answers.tolist()) == (kind, [5])


def test_sums_that_could_wrap_around_are_not_priced(monkeypatch):
    design = of_margins(cells_over((), 2), 1.0, ((), [[3, -2]] * 10))
    monkeypatch.setattr(margins, "INT64_SAFE_LIMIT", 2 * 3 * 10 + 1)
    assert design.step(REPLACE) == 50
    monkeypatch.setattr(margins, "INT64_SAFE_LIMIT", 2 * 3 * 10)
    assert design.step(ADD) == 30
    with refused("plan.margin-distances-too-large"):
        design.step(REPLACE)


def test_distances_of_queries_of_few_cells_are_those_of_all(rng):
    for held in range(1, 21):
        rows = rng.integers(-9, 10, size=(3, 20)) * (rng.permuted(np.tile(np.arange(20), (3, 1)), axis=1) < held)
        rows[:, 0] += rows.any(axis=1) == 0
        largest = max(int(np.abs(a - b).sum()) for a in rows.T for b in rows.T)
        assert of_margins(cells_over((), 20), 1.0, ((), rows)).step(REPLACE) == largest
