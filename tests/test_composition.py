"""Joint costs of releases on the same records: against brute force, and the laws that hold beyond it."""

from __future__ import annotations

import itertools
import json
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fitnoise.kernel.profiles import MAX_CELLS, Profile, ceil_dyadic, joint
from reference_ledger import largest_cost, value_at
from refused import refused

UNIT = Fraction(1, 2**64)
SIZES = {"age": 3, "sex": 2, "region": 4, "one": 1, "owner": 2}


@st.composite
def profiles(draw: st.DrawFn, largest: int = 2**70) -> Profile:
    keys = draw(st.permutations(sorted(SIZES)))[: draw(st.integers(0, 3))]
    cells = math.prod(SIZES[k] for k in keys)
    values = draw(st.lists(st.integers(0, largest) | st.integers(0, 5), min_size=cells, max_size=cells))
    return Profile(tuple((k, SIZES[k]) for k in keys), tuple(values))


several = st.lists(profiles(), max_size=5)
limits = st.sampled_from([1, 2, 5, 12, MAX_CELLS])  # the first ones force upper bounds


def brute(values: list[Profile]) -> Fraction:
    return largest_cost([(p.axes, p.values) for p in values]) * UNIT


def reordered(p: Profile, order: list[int]) -> Profile:
    """Return an equal function of the same axes, written in another order."""
    axes = [p.axes[i] for i in order]
    values = [
        value_at(p.axes, p.values, dict(zip((k for k, _ in axes), cell, strict=True)))
        for cell in itertools.product(*(range(n) for _, n in axes))
    ]
    return Profile(tuple(axes), tuple(values))


# --- The joint cost ---------------------------------------------------------------------------------------


@pytest.mark.no_cover
@given(several)
def test_the_joint_cost_is_the_largest_sum_over_all_joint_cells(values: list[Profile]) -> None:
    assert joint(values) == brute(values)


def test_axes_are_met_by_their_names_and_not_by_their_places() -> None:
    """In any order, of any sizes; and what is of one axis counts wherever it lies along the others."""
    one = Profile((("b", 2), ("a", 3)), (1, 2, 3, 4, 5, 60))
    other = Profile((("a", 3), ("b", 2)), (0, 0, 0, 0, 100, 0))
    assert joint([one, other]) == 103 * UNIT
    assert joint([one, other, Profile((("a", 3),), (0, 50, 7))]) == 110 * UNIT
    assert joint([one, other, Profile((("b", 2),), (0, 44))]) == 104 * UNIT


def test_a_cost_is_rounded_up_to_a_multiple() -> None:
    assert ceil_dyadic(Fraction(1, 3), 2) == Fraction(1, 2)
    assert ceil_dyadic(Fraction(3, 4), 2) == Fraction(3, 4)
    assert ceil_dyadic(Fraction(7, 3)) == Fraction(7 * 2**64 // 3 + 1, 2**64)
    with refused("ledger.cost-not-a-fraction"):
        ceil_dyadic(0.5)  # type: ignore[arg-type]


@pytest.mark.no_cover
@given(several, limits)
def test_it_lies_between_the_truth_and_the_sum_and_never_below_one_of_them(values: list[Profile], cells: int) -> None:
    cost = joint(values, max_cells=cells)
    assert brute(values) <= cost <= sum((p.largest for p in values), Fraction(0))
    assert all(p.largest <= cost for p in values)


@pytest.mark.no_cover
@given(several, limits, st.data())
def test_it_does_not_depend_on_the_order_of_profiles_or_axes(values: list[Profile], cells: int, data: Any) -> None:
    other = [reordered(p, data.draw(st.permutations(range(len(p.axes))))) for p in data.draw(st.permutations(values))]
    assert joint(other, max_cells=cells) == joint(values, max_cells=cells)


@pytest.mark.no_cover
@given(several, limits, st.data())
def test_it_does_not_fall_where_no_value_falls(values: list[Profile], cells: int, data: Any) -> None:
    raised = [Profile(p.axes, tuple(v + data.draw(st.integers(0, 2**66)) for v in p.values)) for p in values]
    assert joint(raised, max_cells=cells) >= joint(values, max_cells=cells)


@pytest.mark.no_cover
@given(several, profiles())
def test_one_release_more_costs_from_nothing_to_its_own_price(values: list[Profile], extra: Profile) -> None:
    assert joint(values) <= joint([*values, extra]) <= joint(values) + extra.largest


@given(profiles(), st.integers(1, 4))
def test_the_same_release_again_costs_the_same_again(p: Profile, times: int) -> None:
    assert joint([p] * times) == times * p.largest


def test_releases_that_peak_in_different_cells_cost_less_than_their_sum() -> None:
    young = Profile((("age", 3),), (8, 1, 1))
    old = Profile((("age", 3),), (1, 1, 8))
    assert joint([young, old]) == 9 * UNIT
    assert joint([young, Profile((("years", 3),), old.values)]) == 16 * UNIT  # another key: any pair of cells
    assert joint([young, Profile((), (8,))]) == 16 * UNIT
    assert joint([]) == 0


def test_a_bound_is_taken_part_by_part_and_only_where_it_must_be() -> None:
    """Three cells of two values: two of the three pairs can be equal while the third differs, but not all at once."""
    equal, unequal = (1, 0, 0, 1), (0, 1, 1, 0)
    circle = [
        Profile(((a, 2), (b, 2)), values)
        for a, b, values in [("a", "b", equal), ("b", "c", equal), ("c", "a", unequal)]
    ]
    assert joint(circle, max_cells=8) == brute(circle) == 2 * UNIT
    assert joint(circle, max_cells=7) == 3 * UNIT
    assert joint(circle[:2], max_cells=1) == 2 * UNIT  # an open chain needs no more than its links


def test_long_chains_are_exact_and_wide_ones_bounded_in_time() -> None:
    chain = [Profile(((f"a{i}", 40), (f"a{i + 1}", 40)), tuple(range(1600))) for i in range(30)]
    assert joint(chain) == 30 * 1599 * UNIT  # of 40^31 joint cells
    rng = np.random.default_rng(3)
    pairs = list(itertools.combinations(range(6), 2))
    dense = [
        Profile(((f"b{i}", 60), (f"b{j}", 60)), tuple(int(x) << 40 for x in rng.integers(0, 2**30, 3600)))
        for i, j in pairs
    ]
    cells = rng.integers(0, 60, (2000, 6))
    seen = max(sum(p.values[c[i] * 60 + c[j]] for p, (i, j) in zip(dense, pairs, strict=True)) for c in cells)
    assert seen * UNIT <= joint(dense) <= sum(p.largest for p in dense)


def test_what_many_share_is_maximised_out_after_what_is_their_own() -> None:
    """There are 10^12 joint cells, and the shared key comes first by name."""
    rng = np.random.default_rng(7)
    tables = [rng.integers(0, 2**30, (10, 10)).tolist() for _ in range(11)]
    star = [Profile((("a", 10), (f"b{i}", 10)), tuple(x for row in t for x in row)) for i, t in enumerate(tables)]
    exact = max(sum(max(t[a]) for t in tables) for a in range(10)) * UNIT
    assert joint(star) == joint(star, max_cells=100) == exact < sum(p.largest for p in star)


@pytest.mark.parametrize("value", [2**62, 2**63 - 1, 2**63, 2**64 - 1, 2**64])
def test_sums_of_any_length_are_exact(value: int) -> None:
    wide = Profile((("age", 2),), (value, 1))
    assert joint([wide, wide]) == 2 * value * UNIT
    assert joint([Profile((), (value,)), wide, Profile((("sex", 2),), (value, value))]) == 3 * value * UNIT


def test_more_attributes_of_one_value_than_an_array_has_axes() -> None:
    axes = tuple((f"a{i}", 1) for i in range(100))
    assert joint([Profile(axes, (3,)), Profile(axes[::-1], (4,))]) == 7 * UNIT


@pytest.mark.parametrize("sizes", [(3, 2), (1, 2)])
def test_one_key_of_two_sizes_is_refused(sizes: tuple[int, int]) -> None:
    with refused("ledger.profile-sizes-differ"):
        joint([Profile((("age", n),), (1,) * n) for n in sizes])


# --- A profile --------------------------------------------------------------------------------------------


@given(st.lists(st.builds(Fraction, st.integers(0, 10**30), st.integers(1, 10**30)), min_size=1, max_size=6))
def test_every_cost_is_rounded_up_by_less_than_one_step(costs: list[Fraction]) -> None:
    p = Profile.from_rho([("age", len(costs))], iter(costs))
    assert all(c <= v * UNIT < c + UNIT for v, c in zip(p.values, costs, strict=True))
    assert p.largest == math.ceil(max(costs) / UNIT) * UNIT


@given(profiles())
def test_a_profile_comes_back_from_its_document(p: Profile) -> None:
    text = json.dumps(p.document(), allow_nan=False)
    assert "." not in text
    assert Profile.parse(json.loads(text)) == p
    assert joint([p]) == p.largest


@pytest.mark.parametrize(
    ("axes", "values"),
    [
        ([("age", 1)], (1,)),
        ((["age", 1],), (1,)),
        ((("age",),), (1,)),
        ((("age", 1, 1),), (1,)),
        (((b"age", 1),), (1,)),
        ((("age", 1.0),), (1,)),
        ((("age", True),), (1,)),
        ((("age", 0),), ()),
        ((("age", -1), ("sex", -1)), (1,)),
        ((("age", 1), ("age", 1)), (1,)),
        ((("age", 2),), (1,)),
        ((("age", 2),), (1, 1, 1)),
        ((("age", 10**30), ("sex", 10**30)), (1,)),
        ((), ()),
        ((), [1]),
        ((), (1.0,)),
        ((), (True,)),
        ((), (np.int64(1),)),
        ((), (-1,)),
        ((), ("1",)),
        ((), (None,)),
        (None, (1,)),
        ((), None),
    ],
)
def test_what_is_no_profile_is_refused(axes: Any, values: Any) -> None:
    with refused(
        "ledger.profile-axes-invalid",
        "ledger.profile-axis-twice",
        "ledger.profile-values-invalid",
        "ledger.profile-values-misfit-axes",
    ):
        Profile(axes, values)


@pytest.mark.parametrize("cost", [0.5, 1, True, "1/2", None, Fraction(-1, 2), -UNIT / 2])
def test_only_fractions_of_at_least_0_make_a_profile(cost: Any) -> None:
    with refused("ledger.profile-costs-invalid"):
        Profile.from_rho([("age", 2)], [Fraction(1), cost])


GOOD: dict[str, Any] = {"axes": [["age", 2]], "values": [1, 2]}


@pytest.mark.parametrize(
    "document",
    [
        None,
        [],
        "profile",
        {},
        {"axes": GOOD["axes"]},
        {**GOOD, "more": 1},
        {**GOOD, "axes": None},
        {**GOOD, "axes": {"age": 2}},
        {**GOOD, "axes": [("age", 2)]},
        {**GOOD, "axes": ["a2"]},
        {**GOOD, "axes": [[["age"], 2]]},
        {**GOOD, "axes": [["age", 2.0]]},
        {**GOOD, "values": (1, 2)},
        {**GOOD, "values": "12"},
        {**GOOD, "values": [1, 2.0]},
        {**GOOD, "values": [1, True]},
        {**GOOD, "values": [1]},
        {**GOOD, "values": {"0": 1, "1": 2}},
    ],
)
def test_what_no_profile_writes_is_not_read(document: Any) -> None:
    assert Profile.parse(GOOD).document() == GOOD
    with refused(
        "ledger.profile-axes-invalid",
        "ledger.profile-not-readable",
        "ledger.profile-values-invalid",
        "ledger.profile-values-misfit-axes",
    ):
        Profile.parse(document)
