import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fitnoise.request.number_rules import ByAttribute, ByTableSize, PublicTotal
from fitnoise.request.targets import Target, TargetKind, z_score
from refused import refused
from tolerances import EXACT


def variance(kind, number, confidence=0.95, cells=1, **options):
    return float(Target(kind, number, **options).variance(np.array(float(number)), confidence, cells))


def test_z_scores_are_the_tabulated_ones():
    assert z_score(0.95) == pytest.approx(1.959963984540054, rel=1e-15)
    assert z_score(0.90) == pytest.approx(1.6448536269514722, rel=1e-14)
    assert z_score(0.99) == pytest.approx(2.5758293035489004, rel=1e-14)


def test_each_way_of_saying_it():
    assert variance(TargetKind.MARGIN, 15) == pytest.approx((15 / 1.959963984540054) ** 2)
    assert variance(TargetKind.MARGIN, 15, confidence=0.5) == pytest.approx((15 / 0.6744897501960817) ** 2)
    assert variance(TargetKind.STD_ERROR, 3) == 9
    assert variance(TargetKind.VARIANCE, 3) == 3
    assert variance(TargetKind.RELATIVE_STD_ERROR, 0.05, reference=200) == pytest.approx(100)


@pytest.mark.parametrize("kind", TargetKind)
def test_a_kind_given_as_its_name_is_that_kind(kind):
    """Detects a variance that is read as a margin, as the last of the ways is."""
    reference = 100 if kind is TargetKind.RELATIVE_STD_ERROR else None
    one, other = (Target(x, 5.0, reference=reference) for x in (kind, kind.value))
    assert one == other
    assert one.variance(np.array([5.0]), 0.9, 4) == other.variance(np.array([5.0]), 0.9, 4)
    for wrong in ("Margin", "error", None, 3, []):
        with refused("workload.target-kind-unknown"):
            Target(wrong, 5.0)


def test_a_target_may_have_its_own_confidence():
    target = Target(TargetKind.MARGIN, 15, confidence=0.9)
    assert float(target.variance(np.array(15.0), 0.95, 1)) == pytest.approx((15 / z_score(0.9)) ** 2)


@pytest.mark.parametrize("cells", [1, 7, 1000, 10**9])
def test_max_deviation_holds_for_all_numbers_at_once(cells):
    v = variance(TargetKind.MAX_DEVIATION, 10, confidence=0.95, cells=cells)
    inside = 2 * stats.norm.sf(10 / math.sqrt(v))  # probability that one number is outside
    assert cells * math.log1p(-inside) == pytest.approx(math.log(0.95), rel=1e-9)


@given(st.floats(0.01, 0.999), st.floats(0.01, 0.999))
def test_more_confidence_asks_for_less_variance(a, b):
    low, high = sorted((a, b))
    assert variance(TargetKind.MARGIN, 1, confidence=high) <= variance(TargetKind.MARGIN, 1, confidence=low)


def test_by_name_and_in_order():
    assert ByAttribute("x", [1, 2, 3]).for_labels(["a", "b", "c"]) == (1, 2, 3)
    assert ByAttribute("x", {"b": 5}, default=1).for_labels(["a", "b", "c"]) == (1, 5, 1)
    assert ByAttribute("x", {1: 5, 2: 6}).for_labels([1, 2]) == (5, 6)


# --- by the size of a table -----------------------------------------------------------------------------------

numbers = st.floats(1e-3, 1e6)


@given(numbers, st.floats(-3, 3), st.none() | numbers, st.none() | numbers, st.lists(st.integers(1, 10**9), min_size=1))
def test_a_target_by_size_follows_the_power_within_its_limits(coefficient, power, lowest, highest, cells):
    if lowest is not None and highest is not None:
        lowest, highest = sorted((lowest, highest))
    target = ByTableSize(coefficient, power, lowest, highest)
    result = target.evaluate(np.array(cells))
    for k, x in zip(cells, result, strict=True):
        expected = coefficient * k**power
        expected = max(expected, lowest or 0)
        assert x == pytest.approx(min(expected, math.inf if highest is None else highest), rel=EXACT)
        assert x == target.evaluate(k)


def test_limits_hold_where_the_power_leaves_floating_point():
    """Without a limit the target itself leaves it, without a warning: the workload refuses it."""
    assert ByTableSize(1, 500).evaluate(10**5) == math.inf
    assert ByTableSize(1, -500).evaluate(10**5) == 0
    assert ByTableSize(1, 500, most=np.float64(7)).evaluate(np.array([10**5, 1])).tolist() == [7, 1]
    assert ByTableSize(1, -500, least=2).evaluate(10**5) == 2
    assert ByTableSize(3, 0).evaluate(10**5) == 3


@pytest.mark.parametrize("kind", TargetKind)
def test_a_public_total_is_the_reference_of_a_relative_error_only(kind):
    if kind is TargetKind.RELATIVE_STD_ERROR:
        assert variance(kind, 0.1, cells=50, reference=PublicTotal(1000)) == pytest.approx((0.1 * 20) ** 2, rel=EXACT)
        several = Target(kind, 0.1, None, PublicTotal(1000)).variance(
            np.full((3, 1), 0.1), 0.95, np.array([[1], [2], [4]])
        )
        assert several == pytest.approx(np.array([[100.0**2], [50.0**2], [25.0**2]]), rel=EXACT)
    else:
        with refused("workload.reference-misfit"):
            Target(kind, 0.1, None, PublicTotal(1000))


@given(st.floats(1e-3, 10), st.floats(1, 1e6), st.integers(1, 10**6))
def test_a_relative_error_of_the_mean_is_a_standard_error_by_size(relative, total, cells):
    """Three ways to say it."""
    target = ByTableSize(relative * total, -1)
    ways = [
        variance(TargetKind.RELATIVE_STD_ERROR, relative, cells=cells, reference=PublicTotal(total)),
        variance(TargetKind.RELATIVE_STD_ERROR, relative, cells=cells, reference=total / cells),
        variance(TargetKind.STD_ERROR, target.evaluate(cells)),
    ]
    assert ways == pytest.approx([(relative * total / cells) ** 2] * 3, rel=EXACT)


def test_several_tables_have_the_max_deviations_of_each():
    cells = np.array([[1], [7], [1000], [10**9]])
    joint = Target(TargetKind.MAX_DEVIATION, 10).variance(np.full((4, 2), 10.0), 0.9, cells)
    separate = [[variance(TargetKind.MAX_DEVIATION, 10, 0.9, int(k))] * 2 for (k,) in cells]
    assert joint.tolist() == separate


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Target(TargetKind.MARGIN, 0), "workload.target-not-positive"),
        (lambda: ByTableSize(0, 1), "workload.size-target-not-positive"),
        (lambda: ByTableSize(math.inf, 1), "workload.size-target-not-positive"),
        (lambda: ByTableSize("1", 1), "workload.size-target-not-positive"),
        (lambda: ByTableSize(True, 1), "workload.size-target-not-positive"),
        (lambda: ByTableSize(1, math.nan), "workload.size-power-not-finite"),
        (lambda: ByTableSize(1, math.inf), "workload.size-power-not-finite"),
        (lambda: ByTableSize(1, "1"), "workload.size-power-not-finite"),
        (lambda: ByTableSize(1, False), "workload.size-power-not-finite"),
        (lambda: ByTableSize(1, 1, least=0), "workload.size-target-not-positive"),
        (lambda: ByTableSize(1, 1, most=-1), "workload.size-target-not-positive"),
        (lambda: ByTableSize(1, 1, 3, 2), "workload.size-limits-reversed"),
        (lambda: PublicTotal(0), "workload.public-total-not-positive"),
        (lambda: PublicTotal(math.inf), "workload.public-total-not-positive"),
        (lambda: PublicTotal(math.nan), "workload.public-total-not-positive"),
        (lambda: PublicTotal(True), "workload.public-total-not-positive"),
        (lambda: PublicTotal("5"), "workload.public-total-not-positive"),
        (lambda: Target(TargetKind.RELATIVE_STD_ERROR, ByTableSize(1, 1)), "workload.reference-misfit"),
        (lambda: Target(TargetKind.RELATIVE_STD_ERROR, 0.1, reference="5"), "workload.target-reference-not-positive"),
        (lambda: Target(TargetKind.MARGIN, -1), "workload.target-not-positive"),
        (lambda: Target(TargetKind.MARGIN, math.nan), "workload.target-not-positive"),
        (lambda: Target(TargetKind.MARGIN, math.inf), "workload.target-not-positive"),
        (lambda: Target(TargetKind.MARGIN, True), "workload.target-not-positive"),
        (lambda: Target(TargetKind.MARGIN, "15"), "workload.target-not-positive"),
        (lambda: Target(TargetKind.MARGIN, ByAttribute("x", [1, 0])), "workload.target-not-positive"),
        (lambda: Target(TargetKind.MARGIN, ByAttribute("x", {"a": 1}, default=-1)), "workload.target-not-positive"),
        (lambda: Target(TargetKind.MARGIN, 1, confidence=1), "workload.confidence-out-of-range"),
        (lambda: Target(TargetKind.MARGIN, 1, confidence=95), "workload.confidence-out-of-range"),
        (lambda: Target(TargetKind.MARGIN, 1, confidence=Fraction(10**400)), "workload.confidence-out-of-range"),
        (lambda: Target(TargetKind.MARGIN, 1, confidence=1 - Fraction(1, 10**30)), "workload.confidence-out-of-range"),
        (lambda: Target(TargetKind.RELATIVE_STD_ERROR, 0.1), "workload.reference-misfit"),
        (lambda: Target(TargetKind.MARGIN, 1, reference=3), "workload.reference-misfit"),
        (lambda: Target(TargetKind.RELATIVE_STD_ERROR, 0.1, reference=0), "workload.target-reference-not-positive"),
        (lambda: ByAttribute("x", [1, 2]).for_labels(["a"]), "workload.by-value-count"),
        (lambda: ByAttribute("x", {"z": 2}, default=1).for_labels(["a"]), "workload.by-value-unknown"),
        (lambda: ByAttribute("x", {"a": 2}).for_labels(["a", "b"]), "workload.by-value-incomplete"),
        (lambda: z_score(0), "workload.confidence-out-of-range"),
    ],
)
def test_bad_targets_are_refused(make, message):
    with refused(message):
        make()


def test_targets_by_value_from_a_file(tmp_path):
    file = tmp_path / "places.csv"
    file.write_text("state,county,margin,size\na,1,20,small\na,2,30,large\na,2,30,large\nb,3,,\n", encoding="utf-8-sig")
    assert ByAttribute.from_file(file, "county", "margin", default=9) == ByAttribute("county", {"1": 20, "2": 30}, 9)
    classes = {"small": 5.0, "large": 50.0}
    assert ByAttribute.from_file(str(file), "county", "size", classes) == ByAttribute("county", {"1": 5, "2": 50})
    for make, message in (
        (lambda: ByAttribute.from_file(file, "tract", "margin"), "workload.target-column-missing"),
        (lambda: ByAttribute.from_file(file, "county", "moe"), "workload.target-column-missing"),
        (lambda: ByAttribute.from_file(file, "county", "size"), "workload.target-not-a-number"),
        (lambda: ByAttribute.from_file(file, "county", "size", {"small": 1}), "workload.target-class-missing"),
        (lambda: ByAttribute.from_file(file, "state", "margin"), "workload.target-twice"),
        (lambda: ByAttribute.from_file(tmp_path / "none.csv", "a", "b"), "workload.csv-file-unreadable"),
    ):
        with refused(message):
            make()
    for text in ("1_0", "\u0661", "nan", "inf", "1,5"):
        file.write_text(f"county,margin\n1,{text!r}\n".replace("'", '"'), encoding="utf-8")
        with refused("workload.target-not-a-number"):
            ByAttribute.from_file(file, "county", "margin", default=1)
    file.write_bytes(b"\xff\xfe\x00")
    with refused("workload.csv-file-unreadable"):
        ByAttribute.from_file(file, "a", "b")
