"""Guarantees of `fn.plan` beyond the laws of test_plans.py."""

import json
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import fitnoise as fn
import reference as ref
import zoo
from fitnoise.errors import GapNotReached
from fitnoise.mechanisms.gaussian import formulation
from fitnoise.mechanisms.tables import TablePart
from fitnoise.messages import english
from fitnoise.planning.plan import Plan
from fitnoise.request import curves
from fitnoise.request.targets import Target
from laws.plans import check_plan, status_of
from refused import refused
from tolerances import LOOSE


@pytest.mark.parametrize("name", ["prefix", "crossed", "five structured cells"])
@pytest.mark.parametrize(
    "budget",
    [fn.Budget(rho=Fraction(1, 28)), fn.Budget(mu=0.5), fn.Budget(epsilon=1.0, delta=1e-6)],
    ids=["rho", "mu", "eps"],
)
def test_a_budget_is_spent_and_never_exceeded(name, budget):
    """Problem 2 is Problem 1 scaled (Theorem 5): relaxation = Δ²(targets)/Δ²(budget)."""
    plan = fn.plan(zoo.WORKLOADS[name](), budget=budget)
    check_plan(plan)
    free = fn.plan(zoo.WORKLOADS[name]())
    assert plan.table_part.relaxation == pytest.approx(
        float(free.table_part.exact_cost) / float(plan.table_part.exact_cost), rel=1e-6
    )
    if budget.epsilon is not None:
        assert plan.epsilon(1e-6) <= 1.0 < curves.zcdp_epsilon(plan.loss.rho, 1e-6)
        assert plan.epsilon(1e-6) == pytest.approx(1.0, rel=3e-6)  # a budget is spent as for lattices of σ = 2¹⁰


def test_a_cap_refuses_costlier_plans_and_says_what_to_loosen():
    with refused("plan.gaussian-plan-exceeds-cap"):
        fn.plan(ref.cps(), cap=fn.Budget(rho=Fraction(1, 100)))
    assert fn.plan(ref.cps(), cap=fn.Budget(rho=Fraction(1, 28))).rho < 1 / 28


def test_units_of_several_records_cost_their_square():
    one = fn.plan(zoo.crossed())
    three = fn.plan(zoo.crossed(), unit=fn.PrivacyUnit("person", 3))
    assert three.table_part.exact_cost == 9 * one.table_part.exact_cost
    assert three.bound == pytest.approx(9 * one.bound)
    check_plan(three)


def test_prices_are_what_relaxing_a_table_saves():
    """Finite differences: making one table's variances 1 % larger saves price × 1 % of the cost."""
    base = ref.cps()
    plan = fn.plan(base, gap=1e-8)
    for i, summary in enumerate(plan.table_part.tables):
        tables = list(base.tables)
        eased = Target(tables[i].target.kind, tables[i].target.number * 1.01**0.5)
        tables[i] = fn.Table(tables[i].name, tables[i].attributes, eased, tables[i].views)
        other = fn.plan(fn.Workload(base.domain, tables), gap=1e-8)
        saved = 1 - other.bound / plan.bound
        assert saved == pytest.approx(0.01 * summary.price, rel=0.02)


def test_a_publication_says_everything_once():
    publication = fn.Publication(zoo.crossed(), unit=fn.PrivacyUnit("person", 2), gap=1e-7)
    plan = fn.plan(publication)
    assert plan.publication is publication
    assert plan.gap <= 1e-7
    with refused("plan.publication-with-arguments"):
        fn.plan(publication, cap=fn.Budget(mu=1))


def test_summaries_of_varying_targets():
    w = zoo.WORKLOADS["by value"]()
    summary = fn.plan(w).table_part.tables[0]
    assert english(summary.target) == "±2 to 6"
    assert summary.achieved_moe <= summary.target_moe * (1 + LOOSE)


def test_table_variances_have_the_table_s_shape():
    plan = fn.plan(zoo.WORKLOADS["columns out of order"]())
    table = plan.publication.workload.tables[0]
    assert plan.table_part.table_variances(table.name).shape == (4, 3, 3)
    by_o = plan.table_part.table_variances(table.name)[0, 0]
    assert (by_o <= table.variances(plan.publication.workload.domain, 0.95)[0, 0] * (1 + LOOSE)).all()


def test_dense_plans_speak_per_query_and_per_cell():
    w, c = zoo.lower(5), [1, 2, 3, 4, 5]
    plan = fn.plan(fn.matrix_workload(w, variances=c), gap=1e-6)
    assert plan.table_part.variances.shape == plan.table_part.profile.shape == (5,)
    assert (plan.table_part.variances <= c).all()
    assert plan.table_part.profile.max() == pytest.approx(float(plan.table_part.exact_cost), rel=1e-12)


@pytest.mark.parametrize("k", [2_000, 2_000_000, 2**25])
@pytest.mark.parametrize("rows", [lambda k: [[1] * 5, [0, 1, 2, 3, k]], lambda k: [[1] * 4, [k, k + 1, k + 2, k + 5]]])
def test_rows_of_very_different_size_keep_their_gap(k, rows):
    """Rounding A to some bits moves A B by as many more as the basis is larger: it stopped at 3e-5, or was refused."""
    plan = fn.plan(fn.matrix_workload(np.array(rows(k)), variances=[1, k**2]))
    assert plan.gap <= 1e-6
    check_plan(plan)


def test_gaps_below_what_integers_and_floats_can_prove_are_refused():
    with pytest.raises(GapNotReached):
        fn.plan(fn.matrix_workload(ref.low_rank(16), variances=1), gap=1e-9)
    with refused("spec.gap-out-of-range"):
        fn.plan(zoo.crossed(), gap=0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d["tables"][0].pop("strategy"), "plan.plan-damaged"),
        (lambda d: d.update(fitnoise_plan=99), "plan.plan-version"),
        (lambda d: d["tables"][0].update(mechanism="magic"), "plan.unknown-mechanism"),
        (lambda d: d["tables"][0]["strategy"][0]["mixing"][0][0].__setitem__(0, 7), "plan.integers-of-another-cost"),
        (lambda d: d["tables"][0]["strategy"][0]["mixing"][0][0].__setitem__(0, 7.0), "plan.strategy-not-integers"),
        (lambda d: d["tables"][0]["strategy"][0].update(scales=["1/3"]), "plan.scale-not-float"),
        (lambda d: d["tables"][0]["strategy"][0].update(scales=["-4"]), "plan.scale-not-positive"),
        (lambda d: d["tables"][0]["strategy"].pop(), "workload.bases-misfit"),
        (lambda d: d["tables"][0]["strategy"][0].update(attributes=[["nope"]]), "plan.plan-damaged"),
        (lambda d: d["spec"]["tables"][0].update(margin="x"), "spec.wrong-type"),
        (lambda d: d["tables"][0]["cost"].update(cost_squared="1/2"), "plan.integers-of-another-cost"),
    ],
)
def test_damaged_plans_are_refused(change, message):
    document = json.loads(fn.plan(zoo.crossed()).to_json())
    change(document)
    with refused(message):
        Plan.from_json(json.dumps(document))


def test_what_is_not_a_plan():
    for text in ("", "{", "[]", "{}", '"x"'):
        with refused("plan.not-a-plan", "plan.plan-not-json"):
            Plan.from_json(text)


def test_planning_is_reproducible():
    a, b = fn.plan(zoo.five_cells()), fn.plan(zoo.five_cells())
    assert a.hash == b.hash


def test_the_first_steps_of_a_newcomer(tmp_path):
    """The README's Python, on records made up here."""
    codes = ["OH", "IA"]
    domain = fn.Domain(
        state=fn.Categorical(codes),
        status=fn.Categorical(["single", "joint", "separate", "head"]),
        age=fn.Ordered(0, 85),
        wages=fn.Binned([1, 10_000, 25_000, 50_000, 75_000, 100_000, 200_000]),
    )
    workload = fn.Workload(
        domain,
        [fn.table("state", "status", margin=15), fn.table("status", cumulative="age", margin=30)],
        confidence=0.95,
    )
    plan = fn.plan(workload, gap=1e-6)
    assert plan.bound <= float(plan.table_part.exact_cost)
    assert plan.gap <= 1e-6
    assert plan.rho == pytest.approx(plan.loss_summary.mu**2 / 2)
    assert curves.zcdp_epsilon(plan.loss.rho, 1e-6) > 1.05 * plan.epsilon(delta=1e-6) > 0
    rng = np.random.default_rng(0)
    people = pd.DataFrame(
        {
            "state": rng.choice(codes, 500),
            "status": rng.choice(domain["status"].values, 500),
            "age": rng.integers(0, 86, 500),
            "wages": rng.integers(0, 300_000, 500),
        }
    )
    people.to_parquet(tmp_path / "people.parquet")
    release = fn.release(plan, tmp_path / "people.parquet", ledger=tmp_path / "budget.sqlite")
    frame = release["state by status"]
    assert list(frame.columns) == ["state", "status", "value", "std_error", "moe"]
    assert len(frame) == 8
    assert (frame["moe"] <= 15 * (1 + LOOSE)).all()
    assert abs(frame["value"].sum() - 500) < 8 * 15


NUMBER = fn.KnownTotals((), "Register", "these data")


def test_replace_one_plans_of_totals_only_say_nothing_is_protected():
    swap = fn.PrivacyUnit(neighbours=fn.Neighbours.REPLACE_ONE)
    with refused("spec.public-knows-all-tables"):
        fn.plan(zoo.WORKLOADS["total"](), unit=swap, public=NUMBER)


def test_noise_is_fine_enough_for_its_margins():
    """At σ = 4 an interval of ±1.96 σ holds 93.5 %: every scale is at least 2¹⁰, where the lattice takes 6e-5."""
    for margin in (0.001, 0.999, 7.99, 1e6):
        plan = fn.plan(
            fn.Workload(fn.Domain(a=fn.Ordered(0, 2)), [fn.table(margin=margin), fn.table("a", margin=margin)])
        )
        assert all(s.scale >= 2.0**10 for s in plan.table_part.strategy.sectors)


@pytest.mark.parametrize("neighbours", fn.Neighbours)
def test_separate_noise_is_priced_by_the_same_rule(neighbours):
    """Each table's own numbers as a strategy: Σ over tables of the largest squared distance, over its variances."""
    w = zoo.WORKLOADS["prefix"]()
    is_replaced = neighbours is fn.Neighbours.REPLACE_ONE
    plan = fn.plan(w, unit=fn.PrivacyUnit(neighbours=neighbours), public=NUMBER if is_replaced else None)
    rows = zoo.lower(8) / plan.table_part.relaxation**0.5
    columns = rows.T if neighbours is fn.Neighbours.ADD_OR_REMOVE_ONE else [a - b for a in rows.T for b in rows.T]
    assert plan.table_part.separate_rho == pytest.approx(max(float(c @ c) for c in columns) / 2)


def test_a_plan_keeps_its_hash_where_the_bound_s_last_digit_differs(monkeypatch):
    """Processors round sums of singular values differently: what a plan is called must not depend on that."""
    plan = fn.plan(zoo.crossed())
    parsed = Plan.from_json(plan.to_json())
    monkeypatch.setattr(TablePart, "bound", property(lambda self: self.certificate.bound * (1 + 1e-15)))
    assert parsed.hash == plan.hash


@pytest.mark.parametrize("cost", [None, [1], {}, "1/2"])
def test_a_plan_with_a_damaged_cost_is_refused(cost):
    document = json.loads(fn.plan(zoo.crossed()).to_json())
    document["tables"][0]["cost"] = cost
    with refused("plan.plan-damaged"):
        Plan.from_json(json.dumps(document))
    with refused("plan.plan-not-json"):
        Plan.from_json("[" * 100_000)


def test_the_proof_for_a_cap_is_about_cost_only():
    """The bound of a hybrid, or relative to cell budgets, bounds no ρ, so no error reports it as a bound on ρ."""
    cap = fn.Budget(rho=Fraction(1, 100))
    for options in (
        {"objective": fn.Objective("hybrid", total_error_weight=1.0)},
        {"cell_budgets": fn.CellBudgets(("o",), (1, 0.5, 0.5, 0.5, 0.5))},
    ):
        with refused("plan.gaussian-plan-exceeds-cap") as caught:
            fn.plan(zoo.five_cells(), cap=cap, **options)
        assert "no mechanism" not in str(caught.value)
    with refused("plan.gaussian-plan-exceeds-cap"):
        fn.plan(zoo.five_cells(), cap=cap)


def test_separate_noise_counts_records_that_come_and_go():
    unit = fn.PrivacyUnit(neighbours=fn.Neighbours.REPLACE_ONE)
    plan = fn.plan(zoo.WORKLOADS["one cell"](), unit=unit, source=fn.DataSource(outside_domain="drop"))
    assert plan.table_part.separate_rho == pytest.approx(plan.rho)
    assert Plan.from_json(plan.to_json()).hash == plan.hash


def test_a_plan_that_leaves_kinds_of_pairs_out_says_so(monkeypatch):
    unit = fn.PrivacyUnit(neighbours=fn.Neighbours.REPLACE_ONE)
    monkeypatch.setattr(formulation, "MAX_KINDS", 60)
    partial_plan = fn.plan(zoo.five_cells(), unit=unit, public=NUMBER)
    monkeypatch.setattr(formulation, "MAX_KINDS", 1)
    fewest = fn.plan(zoo.five_cells(), unit=unit, public=NUMBER)
    for plan in (partial_plan, fewest):
        assert "some_pairs" in status_of(plan)
        assert plan.bound <= 3.748737 <= float(plan.table_part.exact_cost)


def test_many_exchangeable_attributes_are_planned_for_replacing_too():
    """Binary attributes one by one: the worst pair differs everywhere, which is the bound that needs no search."""
    domain = fn.Domain({f"a{i}": fn.Ordered(0, 1) for i in range(15)})
    workload = fn.Workload(domain, [fn.table(a, variance=1) for a in domain])
    unit = fn.PrivacyUnit(neighbours=fn.Neighbours.REPLACE_ONE)
    plan = fn.plan(workload, gap=1e-6, unit=unit, public=NUMBER)
    assert float(plan.table_part.exact_cost) == pytest.approx(15, rel=1e-6)  # each table alone: 4 · (1/4) / 1


@pytest.mark.parametrize("rows", [[[1, 1]], [[3, 3, 3]], [[0.5, 0.5]], [[1, 1], [2, 2]]])
@pytest.mark.parametrize("options", [{}, {"budget": fn.Budget(mu=1)}, {"privacy": "pure"}], ids=str)
def test_what_only_shows_the_number_of_records_is_public_where_records_are_replaced(rows, options):
    replace = fn.PrivacyUnit("person", 1, fn.Neighbours.REPLACE_ONE)
    public = None if options.get("privacy") == "pure" else NUMBER
    with refused(*("workload.public-knows-all-tables", "spec.public-knows-all-tables", "plan.nothing-to-protect")):
        fn.plan(fn.matrix_workload(np.array(rows), variances=1), unit=replace, public=public, **options)


@pytest.mark.parametrize("privacy", ["zcdp", "pure"])
def test_targets_at_which_nothing_is_protected_are_refused(privacy):
    workload = fn.Workload(fn.Domain(a=fn.Ordered(0, 1)), [fn.table("a", variance=1e-300)])
    with refused("plan.cost-without-protection", "plan.laplace-noise-out-of-reach"):
        fn.plan(workload, privacy=privacy)


def test_a_plan_is_shown_in_a_line():
    plan = fn.plan(fn.Workload(fn.Domain(a=fn.Ordered(0, 1)), [fn.table("a", variance=1)]), title="Ages")
    assert repr(plan) == "<Plan 'Ages', tables=1, questions=0, rho=0.5, unit='one record, add-or-remove-one'>"
