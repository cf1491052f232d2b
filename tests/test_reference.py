"""Known optima, certified: the value is reached by integers and the bound is proven, both to 1e-6 of the reference."""

import numpy as np
import pytest

import fitnoise as fn
import reference as ref
import zoo
from tolerances import EXACT, GAP

CASES = {
    "prefix 2": (lambda: zoo.lower(2), 1, 1.333333),
    "prefix 4": (lambda: zoo.lower(4), 1, 1.758601),
    "prefix 8": (lambda: zoo.lower(8), 1, 2.281560),
    "prefix 16": (lambda: zoo.lower(16), 1, 2.905253),
    "prefix 64": (lambda: zoo.lower(64), 1, 4.457869),
    "prefix 256": (lambda: zoo.lower(256), 1, 6.414651),
    "marginals 2": (lambda: ref.marginals(2), 1, 2.182453),
    "marginals 4": (lambda: ref.marginals(4), 1, 3.471896),
    "marginals 6": (lambda: ref.marginals(6), 1, 4.119431),
    "marginals 8": (lambda: ref.marginals(8), 1, 4.504424),
    "PL94": (ref.pl94_matrix, 1, 3.013432),
    "age pyramids": (ref.age_pyramids, 1, 7.115406),
    "prefix 64 U(1,10)": (lambda: zoo.lower(64), 10, 1.95253),
    "prefix 64 U(1,1000)": (lambda: zoo.lower(64), 1000, 0.277487),
    "ranges 64": (lambda: ref.ranges(64), 1, 5.58300),
    "ranges 64 U(1,10)": (lambda: ref.ranges(64), 10, 2.63382),
    "ranges 64 U(1,1000)": (lambda: ref.ranges(64), 1000, 0.283360),
    "ranges 128": (lambda: ref.ranges(128), 1, 7.06534),
    "ranges 128 U(1,10)": (lambda: ref.ranges(128), 10, 3.30769),
    "ranges 128 U(1,1000)": (lambda: ref.ranges(128), 1000, 0.298495),
    "signs 64": (lambda: ref.signs(64), 1, 43.6946),
    "signs 64 U(1,10)": (lambda: ref.signs(64), 10, 15.6066),
    "signs 64 U(1,1000)": (lambda: ref.signs(64), 1000, 0.878962),
    "low rank 64": (lambda: ref.low_rank(64), 1, 791.701),
    "low rank 64 U(1,10)": (lambda: ref.low_rank(64), 10, 278.657),
    "low rank 64 U(1,1000)": (lambda: ref.low_rank(64), 1000, 40.5137),
    "marginals 6 U(1,10)": (lambda: ref.marginals(6), 10, 1.66486),
    "marginals 6 U(1,1000)": (lambda: ref.marginals(6), 1000, 0.227258),
}


def agrees(plan, reference):
    """The reference, known to its printed digits, lies between bound and value, which differ by GAP."""
    assert plan.gap <= GAP
    digits = len(repr(reference).replace("0.", "").replace(".", "").lstrip("0"))
    printed = max(0.5 * 10.0 ** (1 - digits) * 10, 2e-6)  # half a unit of the last of `digits` figures, generously
    assert plan.bound * (1 - printed) <= reference <= float(plan.table_part.exact_cost) * (1 + printed)


@pytest.mark.parametrize("name", CASES)
def test_dense(name):
    make, high, reference = CASES[name]
    w = make()
    agrees(fn.plan(fn.matrix_workload(w, variances=ref.uniform_targets(w, high)), gap=GAP), reference)


@pytest.mark.parametrize("d", [2, 3, 10, 256])
def test_identity_and_sum_has_a_closed_form(d):
    """Theorem 7: Δ² = 2d/(1 + d)."""
    w = np.concatenate([np.eye(d, dtype=int), np.ones((1, d), dtype=int)])
    plan = fn.plan(fn.matrix_workload(w, variances=1), gap=GAP)
    assert plan.bound <= 2 * d / (1 + d) * (1 + EXACT)
    assert 2 * d / (1 + d) <= float(plan.table_part.exact_cost)


@pytest.mark.parametrize(
    ("workload", "reference"),
    [
        (ref.cps(), 0.0712418),
        (ref.cps(fn.table("status", ranges={"age": [(0, a) for a in range(60)]}, margin=30)), 0.0692794),
        (
            ref.cps(
                fn.table("status", cumulative="age", variance=fn.ByAttribute("age", np.linspace(1, 40, 86) ** 1.5 * 50))
            ),
            0.0708567,
        ),
        (zoo.seven_cells(), 2.02687),
        (zoo.five_cells(), 2.130793),
        (ref.cube(2), 2.182453),
        (ref.cube(8), 4.504424),
        (ref.cube(16), 5.17893474),
        (ref.cube(10, attributes=20, variance=100.0), 1.44186),
    ],
    ids=["cps", "cps under 60", "cps growing targets", "seven", "five", "cube 2", "cube 8", "cube 16", "20 attributes"],
)
def test_sectors(workload, reference):
    agrees(fn.plan(workload, gap=GAP), reference)


def test_pivoted_basis():
    """The optimum is 1.389193."""
    domain = fn.Domain(a=fn.Categorical([0, 1, 2]), b=fn.Categorical([0, 1]), o=fn.Ordered(0, 3))
    plan = fn.plan(
        fn.Workload(
            domain,
            [
                fn.table("a", ranges={"o": [(0, 1), (1, 2)]}, variance=fn.ByAttribute("o", [2, 3])),
                fn.table("a", "b", ranges={"o": [(1, 3)]}, variance=4),
            ],
        )
    )
    # the third table of the reference, ({1}, rows (2,1,0,−1), (1,1,0,0)), has weights no table can ask for; so the
    # complete case is checked as a matrix
    rows = [
        np.kron(np.kron(np.eye(3, dtype=int), [[1, 1]]), [[1, 1, 0, 0], [0, 1, 1, 0]]),
        np.kron(np.eye(6, dtype=int), [[0, 1, 1, 1]]),
        np.kron(np.kron([[1, 1, 1]], np.eye(2, dtype=int)), [[2, 1, 0, -1], [1, 1, 0, 0]]),
    ]
    targets = [*[2, 3] * 3, *[4] * 6, *[9, 1] * 2]
    joint = fn.plan(fn.matrix_workload(np.concatenate(rows), variances=targets), gap=GAP)
    agrees(joint, 1.389193)
    assert float(plan.table_part.exact_cost) < joint.bound  # fewer tables cost less


def test_replace_one_costs_less_than_the_plan_for_single_records():
    """The best plan for single records costs replace-one neighbours 4.73521 (20 bits)."""
    replace_one = fn.Neighbours.REPLACE_ONE
    charged = float(fn.plan(zoo.five_cells()).table_part.strategy.cost_squared(replace_one))
    assert charged == pytest.approx(4.73521, rel=1e-5)
    public = fn.KnownTotals((), "Register", "these data")
    plan = fn.plan(zoo.five_cells(), unit=fn.PrivacyUnit(neighbours=replace_one), gap=GAP, public=public)
    agrees(plan, 3.748737)
    assert float(plan.table_part.exact_cost) < 0.8 * charged


@pytest.mark.parametrize("t", [2, 4])
def test_sectors_agree_with_the_dense_matrix(t):
    dense = fn.plan(fn.matrix_workload(ref.marginals(t), variances=1), gap=GAP)
    sectors = fn.plan(ref.cube(t), gap=GAP)
    assert float(sectors.table_part.exact_cost) == pytest.approx(float(dense.table_part.exact_cost), rel=2 * GAP)


def test_pl94_by_sectors_is_pl94():
    domain = fn.Domain(
        voting=fn.Categorical([0, 1]), hispanic=fn.Categorical([0, 1]), race=fn.Categorical(list(range(63)))
    )
    names = [("voting",), ("hispanic",), ("race",), ("voting", "hispanic", "race")]
    agrees(fn.plan(fn.Workload(domain, [fn.table(*n, variance=1) for n in names]), gap=GAP), 3.013432)


def test_integers_cost_at_most_1e_5_more_than_the_continuous_optimum():
    plan = fn.plan(ref.cps(), gap=GAP)
    assert float(plan.table_part.exact_cost) <= 0.0712418042 * (1 + 1e-5)
    assert plan.rho == pytest.approx(0.0356209, rel=1e-5)
    assert plan.table_part.separate_rho == pytest.approx(0.214, rel=1e-3)
