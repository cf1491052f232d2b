"""Sweeps are plans: their numbers are those of plans made one by one."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import fitnoise as fn
import reference as ref
import zoo
from conftest import zoo_plan
from designs import remade
from fitnoise.errors import GapNotReached, WorkloadError
from fitnoise.planning import what_if
from fitnoise.request.publication import CellBudgets, ErrorWeights, Goal, Objective
from fitnoise.request.targets import z_score
from refused import refused
from tolerances import EXACT, GAP

AGREE = 2 * GAP
"""Two plans certified to the gap differ by no more."""
TABLES = ["marginals", "by value", "five structured cells", "crossed", "columns out of order", "wide targets"]


def test_factor_one_is_the_plan_itself():
    plan = zoo_plan("crossed")
    sweep = what_if.sweep(plan, "sex by age cumulative", [2, 1])
    assert [p.factor for p in sweep.points] == [1, 2]
    assert sweep.points[0] == sweep.current
    now = sweep.current
    assert (now.rho, now.gap, now.epsilon) == (plan.rho, plan.gap, plan.epsilon())
    assert (now.value, now.bound) == (plan.rho, plan.bound / 2)
    assert now.target_moe == pytest.approx(1.5 * z_score(0.9))
    assert (sweep.table, sweep.confidence, sweep.delta) == ("sex by age cumulative", 0.9, 1e-6)


@pytest.mark.parametrize("name", TABLES)
def test_looser_never_costs_more(name):
    for sweep in what_if.sweeps(zoo.WORKLOADS[name](), factors=[0.25, 0.5, 1, 1.5, 4]):
        for p in sweep.points:
            assert p.bound <= p.rho <= p.bound * (1 + GAP)
            assert p.value == p.rho
            assert p.gap <= GAP
            assert p.target_moe == pytest.approx(p.factor * sweep.current.target_moe)
        for tight, loose in zip(sweep.points, sweep.points[1:], strict=False):
            assert loose.rho <= tight.rho * (1 + GAP)
            assert loose.epsilon <= tight.epsilon * (1 + GAP)


@pytest.mark.parametrize("name", ["total", "one table", "prefix", "one query"])
def test_the_price_of_a_single_table_falls_with_the_square(name):
    w = zoo.WORKLOADS[name]()
    sweep = what_if.sweep(w, w.tables[0].name, [0.1, 0.7, 3, 100])
    assert [p.rho * p.factor**2 for p in sweep.points] == pytest.approx([sweep.current.rho] * 4, rel=AGREE)
    assert 1 not in [p.factor for p in sweep.points]


def test_margin_of_a_mean_is_in_units_of_the_mean():
    """Its variances are those of counts at the ends of the amount, and its points state the requested margin."""
    w = fn.Workload(fn.Domain(income=fn.Amount(0, 200)), [fn.table(mean="income", margin=5, reference=100)])
    plan = fn.plan(w)
    point = what_if.sweep(plan, w.tables[0].name, [1], gap=None).current
    assert point.target_moe == pytest.approx(5, rel=EXACT)
    assert point.target_moe == pytest.approx(plan.table_part.summary(0).target_moe, rel=EXACT)


def every_kind():
    return fn.Workload(
        fn.Domain(a=fn.Ordered(0, 2), b=fn.Ordered(0, 3)),
        [
            fn.table("a", margin=fn.ByAttribute("a", [3, 4, 5]), confidence=0.9),
            fn.table("b", std_error=2),
            fn.table("a", "b", variance=fn.ByAttribute("b", {"0": 9, 2: 30}, default=20)),
            fn.table(cumulative="b", max_deviation=15),
            fn.table(relative_std_error=0.1, reference=40),
        ],
    )


@pytest.mark.parametrize("name", [t.name for t in every_kind().tables])
def test_every_kind_of_target_is_a_margin_times_the_factor(name):
    """Variances are multiplied by the square of the factor in that table, and by nothing in the others."""
    w = every_kind()
    eased = what_if.scale_margins(fn.Publication(w), {name: 1.7}).workload
    for before, after in zip(w.tables, eased.tables, strict=True):
        ratio = after.variances(w.domain, 0.95) / before.variances(w.domain, 0.95)
        assert ratio == pytest.approx(np.full(ratio.shape, 1.7**2 if before.name == name else 1), rel=EXACT)
        assert replace(after, target=before.target) == before


# --- other numbers of records of a unit ---------------------------------------------------------------------


@pytest.mark.parametrize("max_records", [1, 2, 3, 7])
def test_other_bounds_on_records_are_those_of_a_publication_that_states_them(max_records):
    """Further tables and the same unit with other neighbours follow; the cap, which is for its own bound, goes."""
    relations = fn.Neighbours.ADD_OR_REMOVE_ONE, fn.Neighbours.REPLACE_ONE

    def stated(records, **cap):
        unit, other = (fn.PrivacyUnit("person", records, x) for x in relations)
        domain = fn.Domain(a=fn.Ordered(0, 2), b=fn.Ordered(0, 3))
        workload = fn.Workload(domain, [fn.table("a", margin=9)])
        further = fn.Publication(fn.Workload(domain, [fn.table("b", margin=20)]), unit)
        home = fn.PrivacyUnit("home", 20)
        return fn.Publication(workload, unit, other_units=(other, home), further_tables=(further,), **cap)

    bounded = what_if.bound_records(stated(3, cap=fn.Budget(rho=Fraction(1, 10**6))), max_records)
    assert bounded == stated(max_records)
    price = fn.plan(stated(1)).rho * max_records**2
    assert fn.plan(bounded).rho == pytest.approx(price, rel=AGREE)


@pytest.mark.parametrize("wrong", [0, -1, 1.5, 10**13])
def test_a_wrong_bound_on_records_is_refused(wrong):
    with refused("spec.max-records-per-unit-invalid"):
        what_if.bound_records(fn.Publication(zoo.WORKLOADS["total"]()), wrong)


# --- tables of a pattern --------------------------------------------------------------------------------------


def patterns_of_every_kind():
    domain = fn.Domain(a=fn.Ordered(0, 2), b=fn.Ordered(0, 3), c=fn.Ordered(0, 1))
    return fn.Workload(
        domain,
        [
            fn.all_tables(1, list("abc"), margin=[3, 4, 5], confidence=0.9, name="margins"),
            fn.all_tables(2, list("abc"), std_error=fn.ByTableSize(2, 0.5, most=7)),
            fn.table(margin=9),
            fn.all_tables(1, list("ab"), "c", variance=6, name="with c"),
            fn.all_tables(2, list("ac"), cumulative="b", max_deviation=15),
            fn.all_tables(3, list("abc"), relative_std_error=0.1, reference=fn.PublicTotal(900)),
            fn.table("c", cumulative="a", margin=fn.ByTableSize(4, 0.5, least=1, most=20)),
        ],
    )


ALL_NAMES = patterns_of_every_kind().tables.names


@pytest.mark.parametrize("name", ALL_NAMES)
def test_one_table_of_a_pattern_is_eased(name):
    """Its variances are multiplied by the square of the factor; all others of the pattern keep theirs."""
    w = patterns_of_every_kind()
    eased = what_if.scale_margins(fn.Publication(w), {name: 1.7}).workload
    assert eased.tables.names == ALL_NAMES
    assert [type(p) for p in eased.tables.parts] == [type(p) for p in w.tables.parts]
    for before, after in zip(w.tables, eased.tables, strict=True):
        ratio = after.variances(w.domain, 0.95) / before.variances(w.domain, 0.95)
        assert ratio == pytest.approx(np.full(ratio.shape, 1.7**2 if before.name == name else 1), rel=EXACT)
        assert (after.attributes, after.views, after.target.kind) == (
            before.attributes, before.views, before.target.kind,
        )  # fmt: skip
        assert (after.target.confidence, after.target.reference) == (before.target.confidence, before.target.reference)
    untouched = [p for p, q in zip(w.tables.parts, eased.tables.parts, strict=True) if p == q]
    assert len(untouched) == len(w.tables.parts) - 1
    back = what_if.scale_margins(fn.Publication(eased), {name: 1 / 1.7}).workload
    for before, after in zip(w.tables, back.tables, strict=True):
        assert after.variances(w.domain, 0.95) == pytest.approx(before.variances(w.domain, 0.95), rel=EXACT)


def test_several_tables_of_several_patterns_are_eased_jointly():
    w = patterns_of_every_kind()
    factors = {"margins: b": 2, "margins: a": 0.5, "a by c": 3, "total": 4, "a by b by c": 0.1}
    joint = what_if.scale_margins(fn.Publication(w), factors)
    for t, other in zip(w.tables, joint.workload.tables, strict=True):
        ratio = other.variances(w.domain, 0.95) / t.variances(w.domain, 0.95)
        assert ratio == pytest.approx(np.full(ratio.shape, factors.get(t.name, 1) ** 2), rel=EXACT)
    one_by_one = fn.Publication(w)
    for name, factor in factors.items():
        one_by_one = what_if.scale_margins(one_by_one, {name: factor})
    assert one_by_one.workload == joint.workload


def test_a_sweep_of_a_table_of_a_pattern_is_that_of_the_table():
    short = patterns_of_every_kind()
    long = fn.Workload(short.domain, list(short.tables))
    for name in ("margins: b", "a by c", "b by c", "a by b by c"):
        one, other = (what_if.sweep(w, name, [0.5, 1, 2]) for w in (short, long))
        assert (one.table, one.confidence) == (other.table, other.confidence) == (name, long[name].target.level(0.95))
        for p, q in zip(one.points, other.points, strict=True):
            assert p.target_moe == pytest.approx(q.target_moe, rel=EXACT)
            assert p.rho == pytest.approx(q.rho, rel=AGREE)
            assert p.bound <= p.rho <= p.bound * (1 + GAP)
    everything = what_if.sweeps(short, factors=[1])
    assert [s.table for s in everything] == ALL_NAMES
    with refused("workload.table-unknown"):
        what_if.sweep(short, "each of 3 attributes")


def test_tables_of_a_pattern_with_a_target_by_value_stay_in_it():
    domain = fn.Domain(a=fn.Ordered(0, 2), b=fn.Ordered(0, 3), c=fn.Ordered(0, 1))
    targets = fn.ByAttribute("c", [3, 4])
    w = fn.Workload(domain, [fn.all_tables(1, ["a", "b"], "c", margin=targets), fn.table("c", margin=targets)])
    for use in (
        lambda: what_if.scale_margins(fn.Publication(w), {"b by c": 2}),
        lambda: what_if.sweep(w, "b by c", [1, 2]),
    ):
        with pytest.raises(WorkloadError) as raised:
            use()
        assert raised.value.code == "workload.sweep-of-pattern"
    eased = what_if.scale_margins(fn.Publication(w), {"c": 2}).workload  # the table next to it belongs to no pattern
    assert eased["c"].target.number == fn.ByAttribute("c", [6, 8])
    assert eased.tables.parts[0] == w.tables.parts[0]


def test_the_rest_of_a_publication_stays():
    publication = fn.Publication(
        every_kind(),
        unit=fn.PrivacyUnit("person", 2, fn.Neighbours.REPLACE_ONE),
        source=fn.DataSource("people"),
        delta=1e-9,
        title="t",
        objective=Objective(Goal.TOTAL_ERROR, ErrorWeights.INVERSE_VARIANCE),
    )
    both = what_if.scale_margins(publication, {"a": 2, "b": 0.5})
    assert replace(both, workload=publication.workload) == publication
    sweep = what_if.sweep(publication, "b", [2.0])
    assert sweep.current.rho == pytest.approx(fn.plan(publication).rho, rel=AGREE)
    by_hand = fn.plan(what_if.scale_margins(publication, {"b": 2}))
    assert sweep.points[0].rho == pytest.approx(by_hand.rho, rel=AGREE)
    assert sweep.points[0].epsilon == pytest.approx(by_hand.epsilon(1e-9), rel=AGREE)
    assert sweep.delta == 1e-9


@pytest.mark.parametrize(
    "change",
    [
        {"objective": Objective(Goal.HYBRID, total_error_weight=0.01)},
        {"cell_budgets": CellBudgets(("b",), (1, 0.5, 0.25, 1))},
    ],
    ids=["hybrid", "cell budgets"],
)
def test_where_the_price_is_not_what_is_minimised_the_bound_is_of_what_is(change):
    publication = fn.Publication(every_kind(), **change)
    points = what_if.sweep(publication, "b", [0.5, 1, 2]).points
    for p in points:
        by_hand = fn.plan(what_if.scale_margins(publication, {"b": p.factor}), gap=GAP)
        assert p.bound <= p.value <= p.bound * (1 + GAP)
        assert p.value == pytest.approx(by_hand.table_part.objective_value / 2, rel=AGREE)
        assert p.rho <= p.value
    assert points[0].value > points[1].value > points[2].value


def test_plans_of_a_walk_cost_what_cold_ones_do_and_less_work():
    """The test counts iterations of the solver, reported by the callback."""
    w = ref.cps()
    factors = [2.0 ** (k / 3) for k in range(-3, 4)]
    reports = []
    sweep = what_if.sweep(w, "status by age cumulative", factors, progress=lambda *a: reports.append(a))
    cold = []
    for p in sweep.points:
        publication = what_if.scale_margins(fn.Publication(w), {sweep.table: p.factor})
        plan = fn.plan(publication, gap=GAP, progress=lambda *a: cold.append(a))
        assert p.rho == pytest.approx(plan.rho, rel=AGREE)
        assert p.bound == pytest.approx(plan.bound / 2, rel=AGREE)
    assert len(reports) < len(cold)
    assert {(k, n) for k, n, _, _ in reports} == {(k, 7) for k in range(1, 8)}
    assert all(i >= 1 and g >= 0 for _, _, i, g in reports)


def test_prices_are_slopes():
    """d log ρ / d log margin = −2 × the table's price."""
    plan = fn.plan(ref.cps(), gap=1e-7)
    for summary in plan.table_part.tables:
        tight, loose = what_if.sweep(plan, summary.name, [0.99, 1.01], gap=1e-7).points
        slope = math.log(loose.rho / tight.rho) / math.log(loose.factor / tight.factor)
        assert slope == pytest.approx(-2 * summary.price, rel=0.02)


def test_several_tables_share_the_plan_they_start_from():
    reports = []
    plan = zoo_plan("marginals")
    sweeps = what_if.sweeps(plan, ["c by a", "a by b"], [0.9, 1, 1.2], progress=lambda *a: reports.append(a))
    assert [s.table for s in sweeps] == ["c by a", "a by b"]
    assert sweeps[0].current.rho == sweeps[1].current.rho == plan.rho
    assert {n for _, n, _, _ in reports} == {4}
    assert [s.table for s in what_if.sweeps(plan, factors=[1])] == ["a by b", "b by c", "c by a"]
    assert what_if.sweeps(plan, "c by a", [0.9, 1, 1.2])[0] == sweeps[0]


def test_a_plan_that_is_not_certified_well_enough_is_made_again():
    rough = fn.plan(zoo.five_cells(), gap=0.05)
    assert rough.gap > GAP
    recomputed = what_if.sweep(rough, "b", [1]).current
    assert recomputed.gap <= GAP
    assert recomputed.rho <= rough.rho
    assert what_if.sweep(rough, "b", [1], gap=None).current.rho == rough.rho


def test_a_cap_does_not_end_the_curve():
    w = zoo.WORKLOADS["marginals"]()
    cap = fn.Budget(rho=Fraction(zoo_plan("marginals").rho) * Fraction(11, 10))
    plan = fn.plan(w, cap=cap)
    for what in (plan, plan.publication):
        assert what_if.sweep(what, "a by b", [0.5]).points[0].rho > cap.rho


def test_frames():
    sweep = what_if.sweep(zoo_plan("marginals"), "a by b", [1, 2])
    frame = sweep.to_frame()
    assert list(frame.columns) == ["table", "factor", "target_moe", "rho", "value", "bound", "gap", "epsilon"]
    assert frame["rho"].tolist() == [p.rho for p in sweep.points]
    assert set(frame["table"]) == {"a by b"}


def test_a_budget_fixes_the_price():
    publication = fn.Publication(zoo.crossed(), budget=fn.Budget(mu=1))
    with refused("spec.sweep-with-budget"):
        what_if.sweep(publication, "age")


@pytest.mark.parametrize(
    ("factors", "message"),
    [
        ([], "workload.factors-not-distinct"),
        ([1, 2, 1.0], "workload.factors-not-distinct"),
        ([0], "workload.factor-out-of-range"),
        ([-1.0], "workload.factor-out-of-range"),
        ([math.inf], "workload.factor-out-of-range"),
        ([math.nan], "workload.factor-out-of-range"),
        ([True], "workload.factor-out-of-range"),
        (["2"], "workload.factor-out-of-range"),
        ("2", "workload.factor-out-of-range"),
        (None, "workload.factor-out-of-range"),
        ([1j], "workload.factor-out-of-range"),
        ([1e10], "workload.factor-out-of-range"),
        ([1e-10], "workload.factor-out-of-range"),
    ],
)
def test_bad_factors(factors, message):
    with refused(message):
        what_if.sweep(zoo_plan("crossed"), "sex by age cumulative", factors)


def test_factors_of_any_real_type():
    plan = zoo_plan("one table")
    name = plan.publication.workload.tables[0].name
    points = what_if.sweep(plan, name, np.array([2, 1])).points + what_if.sweep(plan, name, {Fraction(1, 2)}).points
    assert [p.factor for p in points] == [1, 2, 0.5]


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        (["x"], "workload.table-unknown"),
        ([], "workload.sweep-tables-not-distinct"),
        (["age", "age"], "workload.sweep-tables-not-distinct"),
    ],
)
def test_bad_tables(tables, message):
    with refused(message):
        what_if.sweeps(zoo_plan("crossed"), tables, [1])


def test_a_gap_out_of_reach_is_refused():
    with pytest.raises(GapNotReached):
        what_if.sweep(ref.cps(), "state by wages", [1], gap=1e-10, max_iterations=5)


@pytest.mark.parametrize("delta", [1e-20, 1e-6, 0.6, 1 - 1e-9])
def test_privacy_curves_are_the_plan_s_own_epsilons(delta):
    plan = remade(zoo_plan("prefix"), publication=replace(zoo_plan("prefix").publication, delta=delta))
    curve = what_if.privacy_curve(plan)
    assert delta in curve.delta
    assert ((curve.delta > 0) & (curve.delta < 1)).all()
    assert (np.diff(curve.delta) > 0).all()
    assert (np.diff(curve.epsilon) <= 0).all()
    assert curve.epsilon[curve.delta == delta] == plan.epsilon()
    few = what_if.privacy_curve(plan, [1e-5, 1e-9])
    assert few.epsilon.tolist() == [plan.epsilon(1e-5), plan.epsilon(1e-9)]


@pytest.mark.parametrize("deltas", [[], [0], [1], [math.nan], [[0.1]], 0.1, ["a"], [True]])
def test_bad_deltas(deltas):
    with refused("spec.deltas-out-of-range"):
        what_if.privacy_curve(zoo_plan("prefix"), deltas)
