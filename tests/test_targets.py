import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fitnoise.errors import WorkloadError
from fitnoise.targets import By, Kind, Target, z_score


def variance(kind, number, confidence=0.95, cells=1, **more):
    return float(Target(kind, number, **more).variance(np.array(float(number)), confidence, cells))


def test_z_scores_are_the_tabulated_ones():
    assert z_score(0.95) == pytest.approx(1.959963984540054, rel=1e-15)
    assert z_score(0.90) == pytest.approx(1.6448536269514722, rel=1e-14)
    assert z_score(0.99) == pytest.approx(2.5758293035489004, rel=1e-14)


def test_each_way_of_saying_it():
    assert variance(Kind.MARGIN, 15) == pytest.approx((15 / 1.959963984540054) ** 2)
    assert variance(Kind.MARGIN, 15, confidence=0.5) == pytest.approx((15 / 0.6744897501960817) ** 2)
    assert variance(Kind.STD_ERROR, 3) == 9
    assert variance(Kind.VARIANCE, 3) == 3
    assert variance(Kind.CV, 0.05, reference=200) == pytest.approx(100)


def test_a_target_may_have_its_own_confidence():
    own = Target(Kind.MARGIN, 15, confidence=0.9)
    assert float(own.variance(np.array(15.0), 0.95, 1)) == pytest.approx((15 / z_score(0.9)) ** 2)


@pytest.mark.parametrize("cells", [1, 7, 1000, 10**9])
def test_max_deviation_holds_for_all_numbers_at_once(cells):
    v = variance(Kind.MAX_DEVIATION, 10, confidence=0.95, cells=cells)
    inside = 2 * stats.norm.sf(10 / math.sqrt(v))  # chance that one number is outside
    assert cells * math.log1p(-inside) == pytest.approx(math.log(0.95), rel=1e-9)


@given(st.floats(0.01, 0.999), st.floats(0.01, 0.999))
def test_more_confidence_asks_for_less_variance(a, b):
    low, high = sorted((a, b))
    assert variance(Kind.MARGIN, 1, confidence=high) <= variance(Kind.MARGIN, 1, confidence=low)


def test_by_name_and_in_order():
    assert By("x", [1, 2, 3]).along(["a", "b", "c"]).tolist() == [1, 2, 3]
    assert By("x", {"b": 5}, default=1).along(["a", "b", "c"]).tolist() == [1, 5, 1]
    assert By("x", {1: 5, 2: 6}).along([1, 2]).tolist() == [5, 6]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Target(Kind.MARGIN, 0), "positive finite number; got 0"),
        (lambda: Target(Kind.MARGIN, -1), "positive finite"),
        (lambda: Target(Kind.MARGIN, math.nan), "positive finite"),
        (lambda: Target(Kind.MARGIN, math.inf), "positive finite"),
        (lambda: Target(Kind.MARGIN, True), "positive finite"),
        (lambda: Target(Kind.MARGIN, "15"), "positive finite"),
        (lambda: Target(Kind.MARGIN, By("x", [1, 0])), "positive finite"),
        (lambda: Target(Kind.MARGIN, By("x", {"a": 1}, default=-1)), "positive finite"),
        (lambda: Target(Kind.MARGIN, 1, confidence=1), "strictly between 0 and 1"),
        (lambda: Target(Kind.MARGIN, 1, confidence=95), "strictly between 0 and 1"),
        (lambda: Target(Kind.CV, 0.1), "needs a reference count"),
        (lambda: Target(Kind.MARGIN, 1, reference=3), "needs a reference count"),
        (lambda: Target(Kind.CV, 0.1, reference=0), "reference count is a positive number"),
        (lambda: By("x", [1, 2]).along(["a"]), "one number per row along it: 1; got 2"),
        (lambda: By("x", {"z": 2}, default=1).along(["a"]), "names 'z', which is not among"),
        (lambda: By("x", {"a": 2}).along(["a", "b"]), "says nothing of b"),
        (lambda: z_score(0), "strictly between"),
    ],
)
def test_bad_targets_are_refused(make, message):
    with pytest.raises(WorkloadError, match=message):
        make()
