"""The rule for `high`: no other loses less, and what is lost is the margin of a plan and what its sum cuts off."""

import sys
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

import fitnoise as fn
from fitnoise.reading.release import Release
from tolerances import EXACT

sys.path.insert(0, str(Path(__file__).parent.parent / "benchmarks"))

import choosing_high as choosing

AMOUNTS = st.lists(st.integers(0, 1000), min_size=1, max_size=30).map(np.array)


@given(amounts=AMOUNTS, kappa=st.integers(1, 40), highs=st.lists(st.floats(0, 2000), min_size=1, max_size=20))
def test_no_high_loses_less_than_that_with_kappa_records_above(amounts, kappa, highs):
    """This holds for more than κ records; with fewer, no sum is worth its noise, and the least of them is taken."""
    rule = choosing.with_above(amounts, kappa)
    assert (amounts > rule).sum() <= kappa
    assert (amounts >= rule).sum() > kappa or rule == amounts.min()
    floor = 0 if len(amounts) > kappa else rule
    for high in (*amounts, *(x for x in highs if x >= floor)):
        assert choosing.lost(amounts, rule, kappa) <= choosing.lost(amounts, high, kappa) * (1 + EXACT)


@given(amounts=AMOUNTS, kappa=st.integers(1, 40), highs=st.lists(st.floats(0, 2000), min_size=1, max_size=20))
def test_squares_are_of_noise_and_of_what_is_cut_off(amounts, kappa, highs):
    squares = choosing.squared(amounts, np.array(highs), kappa)
    for high, root in zip(highs, squares, strict=True):
        noise = kappa * high / 1.959963984540054
        cut = choosing.lost(amounts, high, kappa) - kappa * high
        assert root == pytest.approx(np.hypot(noise, cut), rel=1e-9, abs=1e-9)


def test_what_is_lost_is_what_a_plan_says_and_its_sum_cuts_off():
    """A margin of κ · high, of all records but those above, which count as it."""
    amounts, kappa = np.array([0, 5, 40, 90, 100, 250, 700]), 2
    high = choosing.with_above(amounts, kappa)
    assert high == 100
    income = fn.Amount(0, float(high))
    plan = fn.plan(fn.Workload(fn.Domain(income=income), [fn.table(sum="income", margin=kappa * high)]))
    nobody = Release(plan, [np.zeros(n, dtype=np.int64) for p in plan.groups for n in p.estimation.lengths])
    margin = nobody.total("income").moe()
    cut = amounts.sum() - np.minimum(amounts, high).sum()
    assert choosing.lost(amounts, high, kappa) == pytest.approx(margin + cut, rel=1e-3)


def test_amounts_lie_in_their_classes():
    classes = np.repeat(np.arange(1, 8), 500)
    ends = np.append(choosing.FLOORS[1:], np.inf)
    for tail in choosing.TAILS:
        placed = choosing.placed(classes, tail, np.random.default_rng(0))
        assert (placed >= choosing.FLOORS[classes]).all()
        assert (placed < ends[classes]).all()
    heavier = choosing.placed(classes, 1.5, np.random.default_rng(0))
    lighter = choosing.placed(classes, 3.0, np.random.default_rng(0))
    assert (heavier >= lighter).all()
    assert heavier.max() > 2 * lighter.max()


def test_a_line_is_of_all_that_is_drawn():
    """All choices lose at least the least; the mean over draws of one and the same is that one."""
    amounts = np.random.default_rng(0).lognormal(10, 1, 400)
    one = choosing.line(amounts[:200], amounts[200:], 5)
    assert min(one.squared, one.others, one.quarter, one.fourfold, one.largest) >= 1 - EXACT
    assert one.largest > one.quarter
    same = choosing.mean_line(lambda _: amounts, 200, 5, 3)
    assert list(vars(same).values()) == pytest.approx(list(vars(one).values()), rel=EXACT)
