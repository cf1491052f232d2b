"""Queries for free: further answers, and no record costs more than the costliest record already does."""

import itertools
from dataclasses import replace
from fractions import Fraction
from functools import cache

import cvxpy as cp
import numpy as np
import pandas as pd
import pytest

import fitnoise as fn
import zoo
from charges import loss
from conftest import zoo_plan
from dense import cell_order, strategy_matrix
from designs import remade
from fitnoise.errors import GapNotReached
from fitnoise.interfaces.reports.plans import plan_report
from fitnoise.kernel import measure as measuring
from fitnoise.kernel.ledger import Ledger
from fitnoise.kernel.profiles import ChargedPlan, Profile, joint
from fitnoise.messages import Message
from fitnoise.planning import free_queries as room
from fitnoise.planning.plan import Plan
from laws.counting import HistogramCounter
from laws.plans import check_mechanism, check_plan, status_of
from refused import refused
from replayed_noise import Replay
from tolerances import EXACT, GAP

STEP = Fraction(1, 2**64)
HOMES = {"unit": fn.PrivacyUnit("person"), "source": fn.DataSource("homes")}


def homes(*tables, **attributes):
    domain = {"area": fn.Categorical(["n", "e", "s"]), "age": fn.Ordered(0, 3), "sex": fn.Categorical(["f", "m"])}
    return fn.Workload(fn.Domain(domain | attributes), tables)


YOUNG, OLD = {"young": [0, 1]}, {"old": [2, 3]}


def two_of_a_kind():
    """Plans of different structure: many tables show the old and women; young men pay nothing."""
    old = homes(fn.table("area", "sex", groups={"age": OLD}, margin=3), fn.table("area", groups={"age": OLD}, margin=2))
    women = homes(fn.table("area", groups={"sex": {"women": ["f"]}}, margin=4))
    base, second = (fn.plan(w, **HOMES) for w in (old, women))
    return [base, alongside(second, base.hash)]


def alongside(plan, *hashes):
    """Return the measurements as a plan on the records of other plans, at any price."""
    return remade(plan, publication=replace(plan.publication, composed_with=hashes, must_be_free=False))


def three_sets():
    w = np.array([[1, 1, 0, 0, 0], [0, 0, 1, 1, 0], [0, 0, 1, 0, 0], [0, 0, 0, 0, 1]])
    return [fn.plan(fn.matrix_workload(w, variances=[1, 4, 9, 30]), refine=True)]


def out_of_order():
    return [fn.plan(zoo.WORKLOADS["columns out of order"](), refine=True, unit=fn.PrivacyUnit("home", 2))]


def wide():
    return [fn.plan(zoo.WORKLOADS["wide targets"](), refine=True)]


CASES = {
    "matrix": (
        three_sets,
        lambda: fn.matrix_workload(np.array([[0, 0, 1, 1, 1], [0, 0, 0, 2, 1], [0, 0, 0, 0, 1]]), variances=[1, 2, 1]),
    ),
    "wide targets": (wide, lambda: fn.matrix_workload(np.eye(6)[2:] + np.eye(6)[1:5], variances=[1, 2, 3, 4])),
    "columns out of order": (
        out_of_order,
        lambda: fn.Workload(
            zoo.WORKLOADS["columns out of order"]().domain,
            [
                fn.table(
                    "a", groups={"o": {"high": [1, 2]}}, cumulative="r", variance=fn.ByAttribute("r", [3, 2, 2, 1])
                ),
                fn.table("a", ranges={"o": [(2, 2)]}, margin=2),
            ],
        ),
    ),
    "a pattern": (
        two_of_a_kind,
        lambda: homes(
            fn.all_tables(1, ["area", "sex"], groups={"age": YOUNG}, margin=[1, 2]),
            fn.table(groups={"age": YOUNG, "sex": {"men": ["m"]}}, margin=1),
            fn.all_tables(2, ["sex", "area"], groups={"age": YOUNG}, std_error=fn.ByTableSize(0.5, 0.5), name="both"),
        ),
    ),
    "two of different structure": (
        two_of_a_kind,
        lambda: homes(
            fn.table("area", "sex", groups={"age": YOUNG}, margin=1),
            fn.table("age", groups={"sex": {"men": ["m"]}, "age": YOUNG}, margin=2, name="young men"),
        ),
    ),
}


@cache
def bases(case):
    return tuple(CASES[case][0]())


def free_request(case):
    return CASES[case][1]()


@cache
def free_plan(case):
    return fn.plan_free(free_request(case), bases(case), gap=GAP)


def cell_costs(plan):
    """ρ of one unit in each cell of the domain, from the dense integer strategy alone, in Fractions."""
    rows, scales = strategy_matrix(plan)
    rows = rows @ cell_order(plan).astype(object)
    squares = [Fraction(s) ** 2 for s in scales]
    factor = Fraction(plan.publication.unit.cost_factor()) / 2
    return np.array(
        [factor * sum(Fraction(int(x) ** 2) / s for x, s in zip(column, squares, strict=True)) for column in rows.T]
    )


def profile_of(plan):
    return plan.order.ledger_loss().profile


def counted(plan, ledger, source=None):
    domain = plan.publication.workload.domain
    counter = HistogramCounter(np.zeros(domain.shape, dtype=int), domain.axes)
    return measuring.measure(plan.order, counter, ledger, noise=source or Replay())


def spent(ledger, plan):
    return ledger.balance(plan.order.account).spent


# --- no record costs more ------------------------------------------------------------------------------------


def check_free(plan, *others):
    """Exactly, from the integers: the costliest record costs the same as before; the rest is used up somewhere."""
    before, costs = sum(map(cell_costs, others)), cell_costs(plan)
    assert max(before + costs) == max(before)
    profiles = list(map(profile_of, others))
    assert joint([*profiles, profile_of(plan)]) == joint(profiles)  # also rounded up, as the ledger adds
    slack = max(before) - before
    assert max(x / y for x, y in zip(costs, slack, strict=True) if y) == pytest.approx(1, rel=1e-7)
    assert plan.publication.composed_with == tuple(p.hash for p in others)
    check_plan(plan)


@pytest.mark.parametrize("case", CASES)
def test_the_costliest_record_costs_no_more_than_before(case):
    check_free(free_plan(case), *bases(case))
    assert {"refined_level", "refined_levels"} & {*status_of(free_plan(case))}
    assert 2 * max(cell_costs(free_plan(case))) > max(sum(map(cell_costs, bases(case))))


@pytest.mark.parametrize("seed", range(12))
def test_any_queries_of_cells_with_slack_are_free(seed):
    rng = np.random.default_rng(seed)
    w = rng.integers(0, 2, (5, 6))
    others = [fn.plan(fn.matrix_workload(w[w.any(axis=1)], variances=1 + seed % 3), refine=seed % 2 == 0)]
    others += [fn.plan(fn.matrix_workload(np.eye(6)[:2], variances=[2, 3]), unit=others[0].publication.unit)]
    before = sum(map(cell_costs, others))
    queries = rng.integers(-2, 3, (4, 6)) * (max(before) - before > max(before) * room.MIN_SLACK_FRACTION)
    check_free(
        fn.plan_free(fn.matrix_workload(queries[queries.any(axis=1)], variances=rng.uniform(1, 9)), others), *others
    )


def check_refused(plan, ledger, code="ledger.free-plan-costs"):
    before = spent(ledger, plan)
    with refused(code):
        counted(plan, ledger)
    assert spent(ledger, plan) == before


@pytest.mark.parametrize("case", CASES)
def test_the_ledger_agrees(case):
    """On the records of the others nothing more is spent, even at a cap that is used up; otherwise it is refused."""
    plan = free_plan(case)
    with Ledger(":memory:") as ledger:
        for base in bases(case):
            counted(base, ledger)
        before, account = spent(ledger, plan), plan.order.account
        assert before == joint(map(profile_of, bases(case)))
        ledger.set_cap(account, before)
        check_refused(alongside(plan), ledger, "ledger.over-cap")
        entry = counted(plan, ledger).charge
        assert (entry.rho, entry.composed_plans) == (profile_of(plan).largest, plan.publication.composed_with)
        assert spent(ledger, plan) == before
        ledger.set_cap(account, 9 * before)  # a free plan stays free under any cap
        check_refused(plan, ledger)


def test_plans_that_were_counted_separately_are_composed():
    """Then what is spent falls."""
    tables = [fn.table("area", groups={"age": ages}, margin=2) for ages in (OLD, {"young": 0})]
    separate = [fn.plan(homes(t), **HOMES) for t in tables]
    plan = fn.plan_free(homes(fn.table("area", groups={"age": {"late": 1}}, margin=1)), separate)
    with Ledger(":memory:") as ledger:
        each = sum(counted(p, ledger).charge.rho for p in separate)
        assert spent(ledger, plan) == each
        with refused("ledger.releases-not-on-same-records"):
            ledger.charged(plan.order.account)
        counted(plan, ledger)
        assert spent(ledger, plan) == joint(map(profile_of, separate)) < each


@pytest.mark.parametrize("case", CASES)
def test_a_free_plan_without_the_charges_of_its_base_is_not_charged(case):
    plan = free_plan(case)
    with Ledger(":memory:") as ledger:
        with refused("ledger.composed-plan-not-charged"):
            counted(plan, ledger, Replay(draws=lambda *_: pytest.fail("noise was drawn")))
        assert ledger.entries() == []


def test_a_plan_that_was_left_out_is_noticed_by_the_ledger():
    """Budget that another plan has used is not free again: the ledger composes with all plans on the same records."""
    case = "two of different structure"
    plan, later_plan = (
        free_plan(case),
        fn.plan_free(homes(fn.table("sex", groups={"age": YOUNG}, margin=1)), bases(case)),
    )
    with Ledger(":memory:") as ledger:
        for p in (*bases(case), plan):
            counted(p, ledger)
        check_refused(later_plan, ledger)


def test_what_one_leaves_is_free_for_the_next():
    """Each is measured on the records of all before it: nothing is spent; and the used rest is reported."""
    base = three_sets()
    queries = [[[0, 0, 0, 0, 1]], [[0, 0, 0, 1, 0]], [[0, 0, 1, 0, 0]]]
    with Ledger(":memory:") as ledger:
        counted(base[0], ledger)
        before, account = spent(ledger, base[0]), base[0].order.account
        for w in queries:
            workload = fn.matrix_workload(np.array(w), variances=1)
            plan = fn.plan_free(workload, base)
            same = fn.plan_free(fn.Publication(workload), ledger.charged(account))
            assert same.hash == plan.hash
            counted(plan, ledger)
            assert spent(ledger, plan) == before
            base.append(plan)
            total = sum(map(cell_costs, base))
            assert max(total) <= before < max(total) + STEP
        assert float(min(total) / max(total)) == pytest.approx(1, rel=1e-7)
        with refused("plan.nothing-free"):
            fn.plan_free(workload, base)


def test_nothing_is_free_with_a_plan_measured_twice():
    """It is not known which of the two is meant."""
    (base,) = three_sets()
    with Ledger(":memory:") as ledger:
        counted(base, ledger)
        plan = fn.plan_free(free_request("matrix"), base)
        for _ in range(2):
            counted(alongside(plan, base.hash), ledger)
        with refused("plan.plan-given-twice"):
            fn.plan_free(fn.Publication(free_request("matrix")), ledger.charged(base.order.account))


# --- the most accurate answers --------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(6))
def test_no_independent_noise_is_more_accurate_by_a_conic_solver(seed):
    """The least k with var ≤ k c and prof ≤ what is left, as a semidefinite program."""
    rng = np.random.default_rng(seed)
    base = fn.plan(fn.matrix_workload(np.eye(4), variances=[1, 2, 3, 8]), refine=True)
    w = np.hstack([np.zeros((3, 1)), np.eye(3) if seed == 0 else rng.integers(-1, 3, (3, 3))])
    c = rng.uniform(1, 9, 3)
    w, c = w[w.any(axis=1)], c[w.any(axis=1)]
    plan = fn.plan_free(fn.matrix_workload(w, variances=c), base, gap=GAP)
    slack = 1 - 1 / np.array([1.0, 2, 3, 8])
    basis = np.linalg.svd(w)[2][: np.linalg.matrix_rank(w)]
    precision, k = cp.Variable((len(basis), len(basis)), PSD=True), cp.Variable()
    constraints = [
        cp.sum(cp.multiply(precision, np.outer(b, b))) <= x for b, x in zip(basis.T, slack, strict=True) if b.any()
    ]
    constraints += [cp.matrix_frac(row, precision) <= k * x for row, x in zip(w @ basis.T, c, strict=True)]
    optimum = cp.Problem(cp.Minimize(k), constraints).solve(solver="CLARABEL")
    assert plan.gap <= GAP
    assert plan.table_part.relaxation == pytest.approx(optimum, rel=3e-6)
    assert plan.bound * (1 - EXACT) <= plan.table_part.objective_value


def test_twice_the_accuracy_of_the_base_leaves_twice_as_much():
    w, c, queries = np.eye(3), np.array([1.0, 2, 5]), np.array([[0, 1, 1], [0, 0, 1]])
    relaxed = [
        fn.plan_free(
            fn.matrix_workload(queries, variances=scale),
            fn.plan(fn.matrix_workload(w, variances=c / factor), refine=True),
        ).table_part.relaxation
        for scale, factor in ((1, 1), (1, 2), (8, 1))
    ]
    assert relaxed[0] == pytest.approx(2 * relaxed[1], rel=1e-5) == pytest.approx(8 * relaxed[2], rel=1e-5)


def test_a_pattern_is_as_free_as_its_tables():
    case = "a pattern"
    plan, workload = free_plan(case), free_request(case)
    other = fn.plan_free(fn.Workload(workload.domain, list(workload.tables)), bases(case), gap=GAP)
    assert plan.table_part.relaxation == pytest.approx(other.table_part.relaxation, rel=2 * GAP)
    assert plan.rho == pytest.approx(other.rho, rel=2 * GAP)
    assert (
        [t.name for t in plan.table_part.tables] == [t.name for t in other.table_part.tables] == workload.tables.names
    )
    assert [t.tables for t in plan.summaries] == [2, 1, 1]


def test_the_order_of_attributes_and_new_attributes_do_not_matter():
    case = "two of different structure"
    workload, plan = free_request(case), free_plan(case)
    names = ["sex", "age", "area"]
    turned = fn.Workload(fn.Domain({a: workload.domain[a] for a in names}), workload.tables)
    wider = fn.Workload(
        fn.Domain({"owner": fn.Categorical([0, 1])} | {a: workload.domain[a] for a in names}), workload.tables
    )
    for other in (turned, wider):
        permuted = fn.plan_free(other, bases(case))
        assert permuted.table_part.relaxation == pytest.approx(plan.table_part.relaxation, rel=2 * GAP)
        total = joint([*map(profile_of, bases(case)), profile_of(permuted)])
        assert total == joint(map(profile_of, bases(case)))


def test_cells_for_missing_values_in_another_order_are_other_cells():
    """All cost is in one cell by name, which has another number: nothing is free there, and the ledger adds up."""
    unknown, declined = {"unknown": [-9]}, {"asked": ["N"]}
    domain, second = (
        homes(fn.table(groups={"age": {"g": "unknown"}}, margin=3), age=fn.Ordered(0, 3, missing=missing))
        for missing in (unknown | declined, declined | unknown)
    )
    assert domain.domain["age"].values[4] == second.domain["age"].values[5] == "unknown"
    plan = fn.plan(domain, **HOMES)
    with refused("plan.attributes-of-given-plans"):
        fn.plan_free(second, [plan])
    profiles = [profile_of(p) for p in (plan, alongside(fn.plan(second, **HOMES), plan.hash))]
    assert len({axis for p in profiles for axis in p.axes}) == 2
    assert joint(profiles) == sum(map(joint, ([p] for p in profiles)))


def test_its_mechanism_is_one_like_all_others(rng):
    for case in ("columns out of order", "two of different structure"):
        check_mechanism(alongside(free_plan(case)), rng)


# --- documents, releases --------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES)
def test_a_file_keeps_it(case, tmp_path):
    plan = free_plan(case)
    parsed = Plan.from_json(plan.to_json())
    assert (parsed.hash, parsed.publication.composed_with) == (plan.hash, tuple(p.hash for p in bases(case)))
    (tmp_path / "free.json").write_text(plan.to_json(), encoding="utf-8")
    checked = fn.verify(tmp_path / "free.json")
    assert checked.ok, [c for c in checked.checks if not c.holds]
    with Ledger(":memory:") as ledger:
        for base in bases(case):
            counted(base, ledger)
        charges = ledger.charged(plan.order.account)
    assert charges == [ChargedPlan(p.hash, profile_of(p)) for p in bases(case)]
    first_request = bases(case)[0].publication
    request = fn.Publication(free_request(case), first_request.unit, first_request.source)
    for base_plans in (charges, bases(case), [charges[0], *bases(case)[1:]]):
        assert fn.plan_free(request, base_plans, gap=GAP).hash == plan.hash


def test_its_release_is_verified(tmp_path):
    case = "two of different structure"
    plan = free_plan(case)
    cells = itertools.product("nes", range(4), "fm")
    people = pd.DataFrame([c for c in cells for _ in range(3)], columns=["area", "age", "sex"])
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        for i, p in enumerate((*bases(case), plan)):
            before = spent(ledger, plan)
            fn.release(p, people, ledger=ledger, directory=tmp_path / f"{i}")
        assert spent(ledger, plan) == before
    checked = fn.verify(tmp_path / "2")
    assert checked.ok, [c for c in checked.checks if not c.holds]
    released = fn.Release.read(tmp_path / "2")
    assert released.plan.hash == plan.hash
    assert list(released) == [t.name for t in plan.publication.workload.tables]


# --- refused --------------------------------------------------------------------------------------------------

EYE = np.eye(3)
LATER = EYE[1:]


@cache
def steps():
    return fn.plan(fn.matrix_workload(EYE, variances=[1, 2, 5]), refine=True)


def later(**publication):
    return fn.Publication(fn.matrix_workload(LATER, variances=1), **publication)


def charge(plan):
    return ChargedPlan(plan.hash, profile_of(plan))


def old():
    return bases("two of different structure")[0]


DROP = fn.DataSource(outside_domain=fn.OutsideDomain.DROP)
SWAP = fn.PrivacyUnit(neighbours=fn.Neighbours.REPLACE_ONE)
COUNTED = fn.KnownTotals((), "Register", "these data")
REFUSED = {
    "no further tables": (lambda: ([later(), []]), "plan.free-without-plan"),
    "charges alone": (lambda: (later().workload, [charge(steps())]), "plan.free-without-publication"),
    "a plan twice": (lambda: (later(), [steps(), steps()]), "plan.plan-given-twice"),
    "a plan and its charge": (lambda: (later(), [steps(), charge(steps())]), "plan.plan-given-twice"),
    "a flat profile": (
        lambda: (later(), fn.plan(fn.matrix_workload(np.ones((1, 3)), variances=1))),
        "plan.nothing-free",
    ),
    "a plan without structure": (lambda: (zoo.WORKLOADS["total"](), zoo_plan("total")), "plan.nothing-free"),
    "almost no slope": (
        lambda: (later(), fn.plan(fn.matrix_workload(EYE, variances=[1, 1.00005, 1.00009]), refine=True)),
        "plan.nothing-free",
    ),
    "an exhausted cell of a matrix": (
        lambda: (fn.matrix_workload(EYE[:2], variances=1), steps()),
        "plan.cells-without-free-budget",
    ),
    "exhausted cells of a table": (
        lambda: (homes(fn.table("area", groups={"age": {"late": [1, 2]}}, margin=3)), old()),
        "plan.cells-without-free-budget",
    ),
    "exhausted cells of a pattern": (
        lambda: (homes(fn.all_tables(1, ["area", "sex"], groups={"age": {"late": [1, 2]}}, margin=3)), old()),
        "plan.cells-without-free-budget",
    ),
    "exhausted cells a pattern shows value by value": (
        lambda: (homes(fn.all_tables(2, ["area", "age", "sex"], margin=3, name="all")), old()),
        "plan.cells-without-free-budget",
    ),
    "exhausted cells a table does not show": (
        lambda: (homes(fn.table("area", margin=3)), bases("two of different structure")),
        "plan.cells-without-free-budget",
    ),
    "replace one": (lambda: (later(unit=SWAP), steps()), "plan.free-needs-add-or-remove"),
    "plans to replace one": (
        lambda: (later().workload, fn.plan(later().workload, unit=SWAP, public=COUNTED)),
        "plan.free-needs-add-or-remove",
    ),
    "another unit": (lambda: (later(unit=fn.PrivacyUnit("home", 2)), steps()), "plan.free-of-another-source"),
    "another source": (lambda: (later(source=fn.DataSource("b")), steps()), "plan.free-of-another-source"),
    "another table": (lambda: (later(source=fn.DataSource(table="b")), steps()), "plan.free-of-another-source"),
    "records left out": (lambda: (later(source=DROP), steps()), "plan.free-of-another-source"),
    "records left out by a charge": (
        lambda: (later(unit=fn.PrivacyUnit("person"), source=DROP), [charge(steps())]),
        "plan.attributes-of-given-plans",
    ),
    "plans of two sources": (
        lambda: (later().workload, [steps(), fn.plan(later().workload, source=fn.DataSource("b"))]),
        "plan.free-of-another-source",
    ),
    "an attribute declared otherwise": (
        lambda: (homes(fn.table("area", groups={"age": YOUNG}, margin=3), age=fn.Ordered(0, 4)), old()),
        "plan.attributes-of-given-plans",
    ),
    "another domain": (
        lambda: (fn.matrix_workload(np.eye(4)[1:], variances=1), steps()),
        "plan.attributes-of-given-plans",
    ),
    "a budget": (lambda: (later(budget=fn.Budget(rho=1)), steps()), "plan.free-with-limits"),
    "a cap": (lambda: (later(cap=fn.Budget(rho=1)), steps()), "plan.free-with-limits"),
    "cell budgets": (
        lambda: (later(cell_budgets=fn.CellBudgets(("cell",), (0, 1, 1))), steps()),
        "plan.free-with-limits",
    ),
    "beside": (lambda: (later(composed_with=(steps().hash,)), steps()), "plan.free-with-limits"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_free_is_refused(case):
    arguments, code = REFUSED[case]
    with refused(code):
        fn.plan_free(*arguments())


def test_profiles_of_too_many_joint_cells_are_refused(monkeypatch):
    monkeypatch.setattr(room, "MAX_STRUCTURED_CELLS", 7)
    with refused("plan.profiles-with-many-cells"):
        fn.plan_free(free_request("two of different structure"), bases("two of different structure"))


def test_costs_that_the_ledger_could_not_compute_are_not_free(monkeypatch):
    """With too many joint cells it takes an upper bound of the joint cost."""
    monkeypatch.setattr(room, "joint", lambda profiles: Fraction(len(list(profiles))))
    with refused("plan.free-tables-with-many-cells"):
        fn.plan_free(later(), steps())


def test_what_a_publication_cannot_mean_is_refused():
    with refused("spec.budget-with-hybrid"):
        fn.plan_free(later(objective=fn.Objective(fn.Goal.HYBRID, total_error_weight=0.1)), steps())
    with pytest.raises(GapNotReached):
        fn.plan_free(later(), steps(), gap=1e-10, max_iterations=1)


def test_the_smallest_total_error_is_free_too():
    plan = fn.plan_free(later(objective=fn.Objective(fn.Goal.TOTAL_ERROR)), steps())
    check_plan(plan)
    assert joint([profile_of(steps()), profile_of(plan)]) == profile_of(steps()).largest


@pytest.mark.parametrize("gap", [None, 1e-3])
def test_the_gap_is_that_of_the_publication_or_the_argument(gap):
    plan = fn.plan_free(later(gap=1e-2), steps(), gap=gap)
    assert plan.publication.gap == (gap or 1e-2)
    seen = []
    fn.plan_free(later(), [steps()], progress=lambda i, g: seen.append((i, g)))
    assert seen


def test_charges_without_profiles_are_refused():
    """The ledger has no cells for a plan with replace-one neighbours, and no plan for a manual charge."""
    plan = fn.plan(later().workload, unit=SWAP, public=COUNTED)
    with Ledger(":memory:") as ledger:
        counted(plan, ledger)
        account = steps().order.account
        for hashes, code in (
            (account, "ledger.releases-not-on-same-records"),
            (plan.order.account, "ledger.entry-without-profile"),
        ):
            with refused(code):
                ledger.charged(hashes)
        ledger.charge(account, loss(profile_of(steps()).largest, profile=profile_of(steps())), {})
        with refused("ledger.entry-without-plan"):
            ledger.charged(account)


def test_charges_whose_cells_are_not_kept_leave_nothing():
    """For a plan with too many cells the ledger stores the cost of the costliest for all."""
    flat = ChargedPlan(steps().hash, Profile.from_rho([], [steps().loss.rho]))
    with refused("plan.nothing-free"):
        fn.plan_free(later(), [flat])


# --- tables reported as free --------------------------------------------------------------------------------------


@pytest.mark.parametrize("unit", [fn.PrivacyUnit("person"), fn.PrivacyUnit("home", 2)])
def test_values_reported_as_free_are_free(unit):
    """A count by each value reported as free costs nothing, at the reported accuracy; and no other value is free."""
    old = homes(fn.table("sex", groups={"age": {"old": 2, "oldest": 3}}, margin=fn.ByAttribute("age", [3, 9])))
    plan = fn.plan(old, unit=unit, source=HOMES["source"])
    (offer,) = room.free_counts(plan)
    assert (offer.attribute, offer.values) == ("age", (0, 1, 3))
    assert offer.std_errors[2] > offer.std_errors[0] == offer.std_errors[1]

    def free_table(values, errors):
        targets = fn.ByAttribute("age", [s**2 for s in errors])
        return homes(fn.table(groups={"age": {str(v): v for v in values}}, variance=targets))

    free = fn.plan_free(free_table(offer.values, offer.std_errors), plan)
    assert free.table_part.relaxation == pytest.approx(1, rel=1e-4)
    with refused("plan.cells-without-free-budget"):
        fn.plan_free(free_table([0, 2], [1, 1]), plan)


def test_a_plan_composed_with_others_reports_nothing_as_free():
    """Plans on the same records may have used the budget that it leaves."""
    case = next(case for case in CASES if room.free_counts(bases(case)[0]))
    plan = free_plan(case)
    assert min(profile_of(plan).values) < max(profile_of(plan).values)
    assert room.free_counts(plan) == ()
    assert Message("report.section.unused") not in [section.title for section in plan_report(plan).sections]


@pytest.mark.parametrize("plan", [fn.plan(homes(fn.table("age", margin=2)))])
def test_where_nothing_is_free_nothing_is_reported(plan):
    assert room.free_counts(plan) == ()
    pairs = replace(plan.publication, unit=SWAP, public=COUNTED)
    assert room.free_counts(fn.plan(pairs)) == ()
