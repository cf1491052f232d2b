"""Rules about impossible cells that a domain declares before planning: cells, prices, refusals, and tables."""

import contextlib
import itertools
import json
import math
import sqlite3
from fractions import Fraction
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pytest

import fitnoise as fn
import fitnoise.data
from fitnoise.kernel.profiles import joint
from fitnoise.kernel.units import Neighbours
from fitnoise.messages import english
from fitnoise.planning.joint_axes import with_joint_axes
from fitnoise.planning.shared_columns import counted_jointly
from fitnoise.request.documents import Spec, load_spec
from fitnoise_check.plan import check
from laws.releases import drawn_errors, released
from refused import refused
from tolerances import as_often_as

MARITAL = fn.Categorical(["single", "married", "widowed"])
SEX = fn.Categorical(["f", "m"])
SMALL = fn.Domain(age=fn.Binned([15, 30]), marital=MARITAL, sex=SEX)
RULE = {"age": {"below": 15}, "marital": ["married", "widowed"]}
RULED = SMALL.without(RULE)


def planned(domain, *tables, std_error=1, **options):
    tables = [fn.table(*names, std_error=std_error) for names in tables]
    return fn.plan(fn.Workload(domain, tables), **options)


def joint_axes(plan):
    return {x.names: x.cells for x in plan.publication.domain.axes.joint.values()}


def records(rng, size=2000):
    age = rng.integers(0, 60, size)
    marital = np.where(age < 15, "single", rng.choice(["single", "married", "widowed"], size))
    return pd.DataFrame({"age": age, "marital": marital, "sex": rng.choice(["f", "m"], size)})


# --- prices -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("names", "cost", "cost_without"),
    [
        ([("age", "marital")], 1, 1),
        ([("age", "marital"), ("age",), ("marital",)], 1.4872814, 1.5605836),
        ([("age",), ("marital",)], 1.4571068, 1.4571068),
    ],
)
def test_the_cost_of_two_by_two_cells_is_the_known_optimum(names, cost, cost_without):
    domain = fn.Domain(age=fn.Categorical(["child", "adult"]), marital=fn.Categorical(["single", "married"]))
    without = planned(domain, *names)
    plan = planned(domain.without(age="child", marital="married"), *names)
    assert joint_axes(plan) == {("age", "marital"): ((0, 0), (1, 0), (1, 1))}
    assert (2 * plan.rho, 2 * without.rho) == (pytest.approx(cost, rel=1e-6), pytest.approx(cost_without, rel=1e-6))
    assert plan.gap < 1e-6
    if len(names) != 2:
        assert (plan.table_part.errors.table_variances("age by marital").ravel() == 0).tolist() == [False, True] + [
            False
        ] * 2


def test_the_cost_of_84_cells_with_rules_is_the_known_optimum():
    """The attributes sex, marital status and relationship of the Adult data, with three rules."""
    domain = fn.Domain(
        sex=SEX,
        marital=fn.Categorical(list("abcdefg")),
        relation=fn.Categorical(["husband", "wife", *"cdef"]),
    )
    ruled = (
        domain.without(sex="f", relation="husband")
        .without(sex="m", relation="wife")
        .without(relation=["husband", "wife"], marital=list("cdefg"))
    )
    for orders, cost in (([2], 2.3061), ([1, 2], 3.3615), ([1, 2, 3], 3.5088)):
        tables = [fn.all_tables(k, list(domain), std_error=1) for k in orders]
        plan = fn.plan(fn.Workload(ruled, tables))
        assert 2 * plan.rho == pytest.approx(cost, abs=1e-3)
        assert [len(x) for x in joint_axes(plan).values()] == [60]


@pytest.mark.parametrize("seed", range(125))
def test_the_price_is_the_largest_over_possible_cells(seed):
    """In fractions, from the integers of 500 strategies for random rules, targets and neighbours."""
    rng = np.random.default_rng(seed)
    sizes = dict(zip("abc", rng.integers(2, 4, 3).tolist(), strict=True))
    domain = fn.Domain({name: fn.Ordered(0, n - 1) for name, n in sizes.items()})
    cells = list(itertools.product(*map(range, sizes.values())))
    possible = sorted(map(tuple, rng.permutation(cells)[: len(cells) - 2].tolist()))
    removed = [set(x) for x in zip(*sorted(set(cells) - set(possible)), strict=True)]
    is_free = any(len(x) == n and sum(map(len, removed)) == n + 2 for x, n in zip(removed, sizes.values(), strict=True))
    # A joint axis needs all three attributes, with all of their values.
    if is_free or any({x[i] for x in possible} != set(range(n)) for i, n in enumerate(sizes.values())):
        possible = sorted(cells[:-1])
    ruled = domain.only({name: [x[i] for x in possible] for i, name in enumerate(sizes)})
    tables = [["abc"], ["ab", "bc"], ["ab", "bc", "ac"], ["abc", "a"]][seed % 4]
    targets = rng.uniform(1, 3, len(tables))
    tables = [fn.table(*names, std_error=x) for names, x in zip(tables, targets, strict=True)]
    for neighbours, outside in itertools.product(Neighbours, ("refuse", "drop")):
        unit, source = fn.PrivacyUnit("person", neighbours=neighbours), fn.DataSource(outside_rules=outside)
        is_known = neighbours is Neighbours.REPLACE_ONE and outside == "refuse"
        public = fn.KnownTotals((), "Register", "these data") if is_known else None
        plan = fn.plan(fn.Workload(ruled, tables), unit=unit, source=source, public=public)
        columns = measured_columns(plan, cells)
        # A record that can be left out comes and goes.
        pairs = [] if neighbours is Neighbours.REPLACE_ONE and outside == "refuse" else [(x, None) for x in possible]
        pairs += itertools.combinations(possible, 2) if neighbours is Neighbours.REPLACE_ONE else []
        zero = [Fraction(0)] * len(next(iter(columns.values())))
        changes = ([a - b for a, b in zip(columns[x], columns.get(y, zero), strict=True)] for x, y in pairs)
        assert max(sum(a * a for a in change) for change in changes) == 2 * plan.loss.rho


def measured_columns(plan, cells):
    """Return the exact scaled answers to one record in each cell, as the kernel measures a strategy."""
    strategy = plan.table_part.strategy
    (one,) = plan.publication.domain.axes.joint.values()
    homes = [list(plan.publication.domain).index(a) for a in one.names]
    axes = [name for name, _ in strategy.structure.structured]
    assert axes == [one.name]
    assert strategy.structure.exchangeable == ()
    columns = {cell: [] for cell in cells}
    for group in strategy.groups:
        for i in range(len(group)):
            sector = group.sector(i)
            for row in np.array(sector.rows, dtype=object).tolist():
                entries = dict(zip(one.cells, row, strict=True))
                for cell, column in columns.items():
                    column.append(Fraction(entries.get(tuple(cell[h] for h in homes), 0)) / Fraction(sector.scale))
    return columns


def test_variances_are_those_of_least_squares_over_possible_cells():
    plan = planned(RULED, ("age", "marital"), ("marital", "sex"), ("age",))
    (one,) = plan.publication.domain.axes.joint.values()
    cells = [(s, *x) for s in range(2) for x in one.cells]
    strategy = plan.table_part.strategy
    measured = []
    for group in strategy.groups:
        for i in range(len(group)):
            sector = group.sector(i)
            each = np.array(sector.rows, dtype=float)[:, list(range(len(one.cells))) * 2] / sector.scale
            measured.append(each * [[1, -1][s] for s, *_ in cells] if sector.attributes else each)
    covariance = np.linalg.pinv(sum(m.T @ m for m in measured), rcond=1e-12)
    for table in plan.publication.workload.tables:
        order = [("sex", "age", "marital").index(a) for a in table.attributes]
        shape = [SMALL.sizes[a] for a in table.attributes]
        rows = np.zeros((math.prod(shape), len(cells)))
        for j, cell in enumerate(cells):
            rows[np.ravel_multi_index([cell[i] for i in order], shape), j] = 1
        expected = np.einsum("ij,jk,ik->i", rows, covariance, rows)
        achieved = plan.table_part.errors.table_variances(table.name).ravel()
        np.testing.assert_allclose(achieved, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("privacy", ["zcdp", "pure"])
def test_the_checker_without_fitnoise_computes_the_same_charge_and_bound(privacy):
    plan = planned(RULED, ("age", "marital"), ("marital", "sex"), ("age",), privacy=privacy)
    sentences = [*check(plan.to_json().encode(), plan.hash)]
    assert any("charge as stated" in x for x in sentences)
    assert any("bound as stated" in x for x in sentences)


def test_plans_with_and_without_rules_cost_jointly_as_if_their_cells_were_unrelated():
    """An impossible cell of one plan can be the costliest one of another. So no cell is left out of the sum."""
    targets = fn.ByAttribute("age", [1, 2, 3])
    plans = [
        fn.plan(fn.Workload(domain, [fn.table("age", "marital", margin=targets), fn.table("marital", margin=2)]))
        for domain in (RULED, SMALL)
    ]
    profiles = [plan.order.ledger_loss().profile for plan in plans]
    keys = [key for profile in profiles for key, _ in profile.axes]
    assert len(keys) == len({*keys}) > 1
    assert joint(profiles) >= sum(profile.largest for profile in profiles)


# --- lists of possible cells ------------------------------------------------------------------------------


def test_connected_rules_are_one_list_and_separate_rules_are_two():
    domain = fn.Domain(a=fn.Ordered(0, 1), b=fn.Ordered(0, 1), c=fn.Ordered(0, 1), d=fn.Ordered(0, 1), e=SEX)
    ruled = domain.without(a=0, b=0).without(d=1, e="f")
    assert [x.names for x in ruled.ruled_cells] == [("a", "b"), ("d", "e")]
    assert set(joint_axes(planned(ruled, tuple("abcde")))) == {("a", "b"), ("d", "e")}
    connected = ruled.without(b=1, d=1)
    (cells,) = connected.ruled_cells
    assert cells.names == ("a", "b", "d", "e")
    assert {(0, 1, 0, 0), (1, 0, 1, 1)} <= set(map(tuple, np.argwhere(cells.possible).tolist()))
    # a = 0 implies b = 1, and so d = 0: this follows from two rules.
    assert joint_axes(planned(connected, ("a", "d"))) == {("a", "d"): ((0, 0), (1, 0), (1, 1))}


def test_rules_join_attributes_that_share_a_column():
    domain = fn.Domain(age=fn.Ordered(0, 30), marital=MARITAL, group=fn.Binned([15, 20], column="age"))
    ruled = domain.without(age={"at_most": 14}, marital=["married", "widowed"])
    assert joint_axes(planned(ruled, ("group", "marital")))["marital", "group"] == (
        *((0, i) for i in range(3)),
        *((m, i) for m in (1, 2) for i in (1, 2)),
    )
    (cells,) = joint_axes(planned(ruled, ("age",), ("group", "marital"))).values()
    assert len(cells) == 15 + 3 * 16


def test_a_rule_on_a_level_of_a_hierarchy_holds_below_it():
    places = fn.Hierarchy(["state", "county"], [["N", "N1"], ["N", "N2"], ["S", "S1"]])
    ruled = fn.Domain(place=places, sex=SEX).without(state="N", sex="f")
    assert joint_axes(planned(ruled, ("county", "sex"))) == {("county", "sex"): ((0, 1), (1, 1), (2, 0), (2, 1))}
    assert joint_axes(planned(ruled, ("state", "sex"))) == {("state", "sex"): ((0, 1), (1, 0), (1, 1))}
    both = ruled.only({"county": ["N1", "N2", "S1"], "sex": ["m", "m", "f"]})
    assert joint_axes(planned(both, ("state", "sex"))) == {("state", "sex"): ((0, 1), (1, 0))}


@pytest.mark.parametrize("seed", range(15))
def test_planned_cells_are_those_of_possible_values(seed):
    """Random rules on attributes of two columns and a hierarchy, against every combination of values."""
    rng = np.random.default_rng(seed)
    places = fn.Hierarchy(["state", "county"], [["N", "N1"], ["N", "N2"], ["S", "S1"], ["W", "W1"]], column="z")
    base = fn.Domain(
        a=fn.Ordered(0, 5, column="x"),
        g=fn.Binned([2, 4], column="x"),
        b=fn.Ordered(0, 2, column="y"),
        h=fn.Binned([1], column="y"),
        place=places,
    )
    values = list(itertools.product(range(6), range(3), range(4)))
    cells = {
        "a": lambda x, y, z: x,
        "g": lambda x, y, z: x // 2,
        "b": lambda x, y, z: y,
        "h": lambda x, y, z: min(y, 1),
        "county": lambda x, y, z: z,
        "state": lambda x, y, z: (0, 0, 1, 2)[z],
    }
    domain, allowed = base, values
    for _ in range(3):
        columns = [rng.choice(list(pair)) for pair in (("a", "g"), ("b", "h"), ("county", "state"))]
        rule = {
            str(name): int(rng.integers(base.sizes[name])) for name in rng.permutation(columns)[: rng.integers(2, 4)]
        }
        stated = {
            name: {"values": [base[name].values[i]]} if name in "ab" else base[name].values[i]
            for name, i in rule.items()
        }
        rest = [v for v in allowed if not all(cells[name](*v) == i for name, i in rule.items())]
        with contextlib.suppress(fn.FitnoiseError):
            domain, allowed = domain.without(stated), rest
    names = [str(rng.choice(list(pair))) for pair in (("a", "g"), ("b", "h"), ("county", "state"))]
    plan = planned(domain, names, ("a",), ("b",))
    listed = list(joint_axes(plan))
    for names_along, axis in joint_axes(plan).items():
        assert list(axis) == sorted({tuple(cells[a](*v) for a in names_along) for v in allowed})
    # Attributes of no joint axis are free of each other, and of those of all axes.
    free = [(a,) for a in dict.fromkeys([*names, "a", "b"]) if not any(a in x for x in listed)]
    groups = [*listed, *free]
    number = math.prod(len({tuple(cells[a](*v) for a in x) for v in allowed}) for x in groups)
    assert number == len({tuple(cells[a](*v) for x in groups for a in x) for v in allowed})


def test_missing_values_are_impossible_only_if_named():
    marital = fn.Categorical(["single", "married"], missing={"unknown": []}, if_missing="unknown")
    domain = fn.Domain(age=fn.Binned([15], missing={"unknown": []}, if_missing="unknown"), marital=marital)
    (cells,) = domain.without(age={"below": 15}, marital="married").ruled_cells
    assert (~cells.possible).nonzero() == (0, 1)
    (cells,) = domain.without(age={"below": 15}, marital=["married", "unknown"]).ruled_cells
    assert np.argwhere(~cells.possible).tolist() == [[0, 1], [0, 2]]
    listed = {
        "age": ["under 15", "15 or more", "15 or more", "unknown"],
        "marital": ["single", "single", "married"] * 2,
    }
    with refused("domain.possible-list-lengths"):
        domain.only(listed)
    with refused("domain.impossible-value") as caught:
        domain.only(listed | {"marital": ["single", "single", "married", "single"]})
    assert "Add the combinations with 'unknown'" in caught.value.action
    domain.only(listed | {"marital": ["single", "single", "married", "unknown"]})


def test_a_list_is_read_from_a_file_or_a_frame(tmp_path):
    coded = fn.Domain(state=fn.Categorical({1: "North", 2: "South"}), age=fn.Ordered(0, 2))
    frame = pd.DataFrame({"age": [0, 1, 2], "state": [1, 1, 2]})
    frame.to_csv(tmp_path / "pairs.csv", index=False)
    (tmp_path / "labels.csv").write_text("state,age\nNorth,0\nNorth,1\nSouth,2\n")
    lists = [
        coded.only(x) for x in (tmp_path / "pairs.csv", str(tmp_path / "labels.csv"), frame, pl.from_pandas(frame))
    ]
    for one in lists:
        assert [x.possible.tolist() for x in one.ruled_cells] == [[[True, True, False], [False, False, True]]]
    assert lists[0] == lists[2]
    assert lists[0] != coded
    for data in (tmp_path / "none.csv", 7):
        with refused("domain.csv-file-unreadable", "domain.possible-list-form"):
            coded.only(data)


def test_specifications_state_rules_and_read_them_back(tmp_path):
    (tmp_path / "pairs.csv").write_text("marital,sex\nsingle,f\nsingle,m\nmarried,m\nwidowed,f\n")
    text = """
        [domain.age]
        type = "binned"
        cuts = [15, 30]
        [domain.marital]
        type = "categorical"
        codes = ["single", "married", "widowed"]
        [domain.sex]
        type = "categorical"
        codes = ["f", "m"]
        [[impossible]]
        age = { below = 15 }
        marital = ["married", "widowed"]
        [[possible]]
        file = "pairs.csv"
        [[tables]]
        attributes = ["age", "marital"]
        std_error = 1
    """
    (tmp_path / "spec.toml").write_text(text)
    publication = load_spec(tmp_path / "spec.toml")
    assert publication.domain == RULED.only(tmp_path / "pairs.csv")
    spec = Spec.from_publication(publication)
    assert Spec.from_toml(spec.to_toml()).publication() == publication
    plan = fn.plan(publication)
    assert fn.Plan.from_json(plan.to_json()).hash == plan.hash
    # The rules decide the hash, also where they change no number.
    assert plan.hash != planned(RULED, ("age", "marital"), std_error=1).hash
    for wrong, code, key in (
        ("marital = 'wed'", "domain.impossible-unknown-value", "impossible[0]"),
        ("sexe = 'f'", "domain.impossible-unknown-attribute", "impossible[0]"),
    ):
        lines = text.replace('marital = ["married", "widowed"]', wrong)
        with refused(code) as caught:
            Spec.from_toml(lines).publication(tmp_path)
        assert caught.value.place == key
    for keys in (
        'file = "pairs.csv"\nrows = [["a"]]',
        'attributes = ["sex", "age"]',
        'attributes = ["sex"]\nrows = [[1, 2]]',
    ):
        with refused("spec.possible-source"):
            Spec.from_toml(text.replace('file = "pairs.csv"', keys)).publication(tmp_path)


@pytest.mark.parametrize(
    ("rule", "code"),
    [
        ({"agee": {"below": 15}, "marital": "married"}, "unknown-attribute"),
        ({"age": {"below": 15}, "marital": "maried"}, "unknown-value"),
        ({"age": {"below": 15}}, "one-attribute"),
        ({}, "one-attribute"),
        ({"age": {"below": 20}, "marital": "married"}, "cell-cut"),
        ({"age": {"below": 15}, "marital": {"below": 3}}, "bounds"),
        ({"age": {"below": 15}, "income": 3}, "amount"),
        ({"state": "N", "county": "N1", "sex": "f"}, "two-levels"),
        ({"age": {"below": 15}, "marital": ["single", "married", "widowed"]}, "value"),
        ({"age": [14, 15], "sex": "f"}, "rule-form"),
        ({"ages": {"at_least": 40}, "sex": "f"}, "no-cell"),
    ],
)
def test_a_rule_that_does_not_fit_is_refused(rule, code):
    places = fn.Hierarchy(["state", "county"], [["N", "N1"], ["S", "S1"]])
    domain = fn.Domain(dict(SMALL), place=places, income=fn.Amount(0, 10, step=1), ages=fn.Ordered(0, 30))
    with refused(f"domain.impossible-{code}") as caught:
        domain.without(rule)
    assert caught.value.outcome == "No domain was made."


def test_rules_that_leave_nothing_or_everything_or_are_too_large_are_refused():
    domain = fn.Domain(a=fn.Ordered(0, 1), b=fn.Ordered(0, 1))
    with refused("domain.impossible-everything"):
        domain.only({"a": [], "b": []})
    # Such a list drops no record, so it must not be charged as one that does.
    with refused("domain.possible-list-complete"):
        domain.only({"a": [0, 0, 1, 1, 1], "b": [0, 1, 0, 1, 1]})
    with refused("domain.impossible-everything"):
        domain.without(a={"values": [0, 1]}, b={"values": [0, 1]})
    with refused("domain.impossible-value"):
        domain.without(a={"values": [0, 1]}, b=0)
    with refused("domain.impossible-one-attribute"):
        domain.only({"a": [1]})
    with refused("domain.impossible-unknown-value"):
        domain.only({"a": [True], "b": [7]})
    wide = fn.Domain(a=fn.Ordered(0, 1999), b=fn.Ordered(0, 999))
    with refused("domain.impossible-too-many-cells"):
        wide.without(a=0, b=0)


# --- plans --------------------------------------------------------------------------------------------


def test_the_report_states_the_rules():
    sentences = [english(x) for x in counted_jointly(planned(RULED, ("age", "marital")))]
    assert sentences == [
        "by the rules, 7 combinations of age, marital are possible, and they are counted jointly",
        "rows for other combinations of age, marital are 0 ± 0",
        (
            "data with a counted record in an impossible combination of age, marital are refused, so a release shows "
            "every reader that no such record was counted"
        ),
    ]
    plan = planned(RULED, ("age", "sex"))
    assert joint_axes(plan) == {}
    assert english(list(counted_jointly(plan))[1]).startswith("no table shows age, marital together in this detail: ")
    assert plan.rho == planned(SMALL, ("age", "sex")).rho


@pytest.mark.parametrize(
    ("domain", "names", "options", "code"),
    [
        (RULED, ("sex", "age"), {"series": "sex"}, "rules-unsupported"),
        (RULED, ("age", "marital"), {"unit": fn.PrivacyUnit("person", 2, once_per=("age",))}, "rules-unsupported"),
        (RULED, ("age", "marital"), {"cell_budgets": fn.CellBudgets(("age",), (1, 1, 0.5))}, "rules-not-planned"),
        (
            fn.Domain(a=fn.Ordered(0, 29), b=fn.Ordered(0, 29)).without(a=0, b=0),
            ("a", "b"),
            {"privacy": "pure"},
            "rules-not-planned",
        ),
    ],
)
def test_a_plan_that_needs_the_own_axes_of_ruled_attributes_is_refused(domain, names, options, code):
    with refused(f"workload.{code}"):
        planned(domain, names, **options)


def test_a_value_that_the_rules_and_a_shared_column_exclude_is_refused():
    """The rule alone leaves each value possible. The group of 2 or more has no other age than 2, which is excluded."""
    domain = fn.Domain(age=fn.Ordered(0, 2), group=fn.Binned([2], column="age"), sex=SEX)
    ruled = domain.without(age={"at_least": 2}, group="2 or more")
    for names in (["group"], ["group", "sex"], ["age", "group"]):
        with refused("workload.rules-exclude-value"):
            planned(ruled, names)
    assert joint_axes(planned(ruled, ["sex"])) == {}
    # The column alone leaves no age in a group, so the rules are not the cause.
    unreached = fn.Domain(age=fn.Ordered(0, 2), group=fn.Binned([2, 9], column="age"), sex=SEX)
    planned(unreached.without(age=0, sex="f"), ["age", "group"])


@pytest.mark.parametrize("others", [[], [fn.table("age", "marital", std_error=1)]])
def test_a_table_of_impossible_combinations_only_is_refused(others):
    groups = {"age": {"child": {"values": ["under 15"]}}, "marital": {"had a spouse": {"values": ["widowed"]}}}
    with refused("workload.no-possible-record"):
        fn.plan(fn.Workload(RULED, [*others, fn.table("sex", groups=groups, std_error=1)]))


@pytest.mark.parametrize(
    ("names", "data", "once_per", "code"),
    [
        (("age", "marital"), {}, (), "plan.joint-axes-not-implied"),
        (("age", "sex"), {}, ("age",), "workload.rules-unsupported"),
    ],
)
def test_a_document_cannot_state_rules_that_its_plan_does_not_keep_to(names, data, once_per, code):
    """Without its list, a plan would publish noise where no record can be."""
    document = json.loads(planned(SMALL, names, unit=fn.PrivacyUnit("person", 2, once_per=once_per)).to_json())
    document["spec"] |= {"impossible": [rule.document for rule in RULED.rules], "data": data}
    with refused(code):
        fn.Plan.from_json(json.dumps(document))


def test_questions_refuse_impossible_records(rng):
    question = fn.FiniteQuery.count("women", people=60, epsilon=1, where={"sex": "f"})
    impossible = fn.FiniteQuery.count("x", people=60, epsilon=1, where={"age": "under 15", "marital": "married"})
    with refused("workload.rules-answer-question"):
        fn.plan(fn.Publication(fn.Workload(RULED, []), questions=[question, impossible]))
    plan = fn.plan(fn.Publication(fn.Workload(RULED, []), questions=[question]))
    assert fn.Plan.from_json(plan.to_json()).hash == plan.hash
    right = records(rng, 50)
    assert len(released(plan, right).outputs) == 1
    with refused("data.records-impossible"):
        released(plan, pd.concat([right, pd.DataFrame({"age": [3], "marital": ["married"], "sex": ["f"]})]))


def test_explicit_queries_and_small_databases_are_refused():
    """They would have noise in impossible cells, and a bound over all cells."""
    with refused("workload.rules-unsupported"):
        fn.plan(fn.matrix_workload(np.eye(RULED.size), domain=RULED, std_errors=np.ones(RULED.size)))
    with refused("workload.rules-not-planned"):
        planned(RULED, ("age", "marital"), small_database=fn.SmallDatabase(20), epsilon=1)


def test_a_pattern_may_name_other_attributes():
    plan = planned(RULED, ("age", "marital", "sex"), unit=fn.PrivacyUnit("person", 2, once_per=("sex",)))
    assert [*joint_axes(plan)] == [("age", "marital")]
    assert any("charge as stated" in x for x in check(plan.to_json().encode(), plan.hash))


# --- counting -------------------------------------------------------------------------------------------


def sqlite_table(frame, folder):
    with sqlite3.connect(folder / "people.sqlite") as connection:
        frame.to_sql("people", connection, index=False)
    connection.close()
    return folder / "people.sqlite"


def duckdb_file(frame, folder):
    with duckdb.connect(folder / "people.duckdb") as connection:
        connection.register("held", frame)
        connection.execute("CREATE TABLE people AS SELECT * FROM held")
    return folder / "people.duckdb"


def csv_file(frame, folder):
    frame.to_csv(folder / "people.csv", index=False)
    return folder / "people.csv"


def parquet_file(frame, folder):
    frame.to_parquet(folder / "people.parquet")
    return folder / "people.parquet"


def array_of_counts(frame, _):
    cells = [
        np.digitize(frame["age"], [15, 30]),
        *(frame[a].map(list(SMALL[a].values).index) for a in ("marital", "sex")),
    ]
    counts = np.zeros(SMALL.shape, dtype=np.int64)
    np.add.at(counts, tuple(np.asarray(x) for x in cells), 1)
    return counts


SOURCES = [
    sqlite_table,
    duckdb_file,
    csv_file,
    parquet_file,
    array_of_counts,
    lambda f, _: f,
    lambda f, _: pl.from_pandas(f),
]


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("names", [("age", "marital"), ("age", "sex"), ("sex",)])
def test_a_record_in_an_impossible_cell_is_refused_before_the_charge(source, names, tmp_path, rng):
    """The attributes of a rule need not be in any table."""
    table = "people" if source in (sqlite_table, duckdb_file) else None
    plan = planned(RULED, names, source=fn.DataSource("people", table=table))
    right = records(rng, 200)
    wrong = pd.concat([right, pd.DataFrame({"age": [3, 4], "marital": ["married", "widowed"], "sex": ["f", "m"]})])
    for name, frame in (("right", right), ("wrong", wrong)):
        (tmp_path / name).mkdir()
        ledger = tmp_path / f"{name}.sqlite"
        if name == "right":
            assert len(fn.release(plan, source(frame, tmp_path / name), ledger=ledger)) == 1
            continue
        with refused("data.records-impossible") as caught:
            fn.release(plan, source(frame, tmp_path / name), ledger=ledger)
        assert caught.value.given.endswith(": 2 by the rule 'impossible 1 (age, marital)'.")
        with fn.Ledger(ledger) as opened:
            assert not list(opened.entries())


def test_all_records_of_persons_are_compared_with_the_rules(rng, tmp_path):
    unit = fn.PrivacyUnit("person", 1, id="person")
    plan = planned(RULED, ("age", "marital"), unit=unit)
    frame = records(rng, 100).assign(person=range(100))
    assert len(fn.release(plan, frame, ledger=tmp_path / "l.sqlite")) == 1
    frame.loc[0, ["age", "marital"]] = 3, "married"
    with refused("data.records-impossible"):
        fn.release(plan, frame, ledger=tmp_path / "m.sqlite")


# --- releases -------------------------------------------------------------------------------------------


def test_impossible_numbers_are_zero_in_every_product_of_a_release(rng, tmp_path):
    plan = planned(RULED, ("age", "marital"), ("marital", "sex"), std_error=4)
    release = fn.release(plan, records(rng), ledger=tmp_path / "l.sqlite", directory=tmp_path / "r")
    assert all(x.holds for x in fn.verify(tmp_path / "r").checks if x.holds is not None)
    release = fn.Release.read(tmp_path / "r")
    frame = release["age by marital"]
    impossible = ((frame["age"] == "under 15") & (frame["marital"] != "single")).to_numpy()
    assert impossible.sum() == 2
    assert (frame.loc[impossible, ["value", "std_error", "moe"]] == 0).all(axis=None)
    assert (frame.loc[~impossible, "std_error"] > 0).all()
    never = release.count(age="under 15", marital="married")
    assert (float(never.value), float(never.moe())) == (0, 0)
    integers = fn.make_integer_tables(release, simulations=2)
    assert (integers["age by marital"].loc[impossible, "value"] == 0).all()
    invented = fn.microdata(integers, batches=30)
    assert not ((invented["age"] == "under 15") & (invented["marital"] != "single")).any()
    other = fn.release(
        planned(RULED, ("age", "marital", "sex"), std_error=5), records(rng), ledger=tmp_path / "l.sqlite"
    )
    combined = fn.combine(release, other, same_records=True)
    frame = combined["age by marital"]
    assert (frame.loc[impossible, ["value", "std_error"]] == 0).all(axis=None)
    assert (frame["std_error"] <= release["age by marital"]["std_error"] + 1e-9).all()
    unruled = fn.release(planned(SMALL, ("age", "marital")), records(rng), ledger=tmp_path / "l.sqlite")
    with refused("release.attributes-not-joint-everywhere"):
        fn.combine(release, unruled, same_records=True)
    further = fn.given(release, impossible=[{"age": {"at_least": 30}, "sex": "f"}])
    assert (further["age by marital"].loc[impossible, "std_error"] == 0).all()


@pytest.mark.parametrize("batches", [0, 60])
def test_invented_records_follow_rules_about_attributes_in_no_common_table(batches, rng):
    plan = planned(RULED, ("age",), ("marital", "sex"), std_error=3)
    integers = fn.make_integer_tables(released(plan, records(rng)), simulations=2)
    invented = fn.microdata(integers, batches=batches, anyway=True)
    assert not ((invented["age"] == "under 15") & (invented["marital"] != "single")).any()
    assert batches == 0 or invented.attrs["microdata"]["share_outside_margin"] == 0


@pytest.mark.usefixtures("one_duckdb", "counted_once", "rehearsed_once")
def test_intervals_cover_as_stated(rng):
    """Detects a coverage that is 4 standard errors from 95 %, in 150 releases of one set of records."""
    plan = planned(RULED, ("age", "marital"), ("marital", "sex"), std_error=4)
    data = records(rng, 500)
    groups = pd.cut(data["age"], [-1, 14, 29, 99], labels=RULED["age"].values)
    truth = {
        "age by marital": pd.crosstab(groups, data["marital"])[list(MARITAL.values)].to_numpy().ravel(),
        "marital by sex": pd.crosstab(data["marital"], data["sex"]).reindex(MARITAL.values).to_numpy().ravel(),
    }
    covered, number = 0, 0
    for _ in range(150):
        release = released(plan, data)
        for name, numbers in truth.items():
            frame = release[name][release[name]["std_error"] > 0]
            covered += int((np.abs(frame["value"] - numbers[frame.index]) <= frame["moe"]).sum())
            number += len(frame)
    # Numbers of one release are correlated: as if each table had two independent ones.
    error = math.sqrt(0.95 * 0.05 / (150 * 4))
    assert covered / number == pytest.approx(0.95, abs=4 * error)


def test_ten_thousand_draws_with_a_shared_column_and_a_rule_hold_as_often_as_they_say():
    """The errors of all numbers follow from those of the answers, which are drawn as the kernel draws them."""
    domain = fn.Domain(
        age=fn.Ordered(0, 5, column="age"),
        group=fn.Binned([2, 4], column="age"),
        marital=fn.Categorical(["single", "married", "widowed"]),
    ).without(age={"at_most": 1}, marital=["married", "widowed"])
    tables = [fn.table("age", "marital", margin=9), fn.table("group", "marital", margin=7), fn.table("group", margin=6)]
    errors, margins = drawn_errors(fn.plan(fn.Workload(domain, tables)).table_part)
    inside = np.abs(errors) <= margins
    assert (margins == 0).sum() == 4 + 2  # children who are married or widowed, by age and by group
    assert inside[:, margins == 0].all()
    for j in np.flatnonzero(margins).tolist():
        assert as_often_as(inside[:, [j]], 0.95)


def test_rules_of_filing_units_in_practice(tmp_path):
    """No child under 15 files jointly, separately or as head: the records of the demo, with 344 joint cells."""
    status = fn.Categorical({1: "single", 2: "joint", 3: "separate", 4: "head"})
    domain = fn.Domain(status=status, age=fn.Ordered(0, 85))
    ruled = domain.without(age={"at_most": 14}, status=["joint", "separate", "head"])
    tables = [fn.table("status", "age", margin=30), fn.table("status", margin=15)]
    plan = fn.plan(fn.Workload(ruled, tables))
    assert [len(x) for x in joint_axes(plan).values()] == [344 - 45]
    assert plan.rho <= fn.plan(fn.Workload(domain, tables)).rho * (1 + 1e-6)
    assert with_joint_axes(plan.publication) == plan.publication
    rules = json.loads(plan.to_json())["spec"]["impossible"]
    assert rules == [{"age": {"at_most": 14}, "status": ["head", "joint", "separate"]}]
    units = Path(fitnoise.data.__file__).parent / "cps_taxunits_2014.csv.gz"
    release = fn.release(plan, units, ledger=tmp_path / "l.sqlite")
    frame = release["status by age"]
    impossible = (frame["age"] < 15) & (frame["status"] != "single")
    assert impossible.sum() == 45
    assert (frame["value"][impossible] == 0).all()
    assert (frame["std_error"] == 0).equals(impossible)
    # One child of 15 or more is not excluded, and one of 14 is.
    stricter = domain.without(age={"at_most": 15}, status=["joint", "separate", "head"])
    with refused("data.records-impossible") as caught:
        fn.release(fn.plan(fn.Workload(stricter, tables)), units, ledger=tmp_path / "l.sqlite")
    assert caught.value.given.endswith(": 29 by the rule 'impossible 1 (status, age)'.")
    notices = []
    plan = fn.plan(fn.Workload(stricter, tables), source=fn.DataSource(outside_rules="drop"))
    fn.release(plan, units, ledger=tmp_path / "l.sqlite", notice=notices.append)
    assert ": by attribute or rule 'impossible 1 (status, age)' 29." in notices[0]
