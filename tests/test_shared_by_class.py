"""Attributes of one column that are counted by classes of their values: prices, tables that agree, and combinations."""

import functools
import itertools
import math

import numpy as np
import pandas as pd
import pytest

import fitnoise as fn
from fitnoise.kernel.profiles import joint
from fitnoise.messages import english
from fitnoise.planning import joint_axes
from fitnoise.planning.shared_columns import counted_jointly, unrelated
from fitnoise_check.plan import check
from laws.releases import released
from refused import refused
from test_class_axes import form

ADD, REPLACE = fn.Neighbours
SEX = fn.Categorical(["f", "m"])
TOTALS = "the register of 2025"


def ages(last):
    return fn.Ordered(0, last, column="x")


def cut(*cuts):
    return fn.Binned(cuts, column="x")


AGES = {"age": ages(11), "group": cut(4, 8)}
SINGLE = [fn.table("age", margin=20), fn.table("group", margin=15)]
TABLES = [*SINGLE, fn.table("sex", "age", margin=30), fn.table("sex", "group", margin=25)]


@pytest.fixture(autouse=True)
def few_cells(monkeypatch):
    """Set a limit that combinations of values exceed, and those of classes do not."""
    monkeypatch.setattr(joint_axes, "MAX_JOINT_CELLS", 8)


def planned(attributes=AGES, tables=TABLES, **options):
    return fn.plan(fn.Workload(fn.Domain(**attributes, sex=SEX), tables), **options)


def classes_of(plan):
    return {one.names: len(one.cells) for one in plan.publication.domain.axes.joint.values() if any(one.classes)}


def records(rng, size=2000, last=11):
    return pd.DataFrame({"x": rng.integers(0, last + 1, size), "sex": rng.choice(["f", "m"], size)})


# --- the cost -----------------------------------------------------------------------------------------------


def drawn_problem(draw):
    """Return two or three attributes of one column, one of another column, and tables of drawn targets."""
    last = int(draw.integers(4, 9))
    attributes = {"age": ages(last)}
    for name in ("group", "band")[: int(draw.integers(1, 3))]:
        cuts = sorted(draw.choice(np.arange(1, last + 1), int(draw.integers(1, 3)), replace=False).tolist())
        attributes[name] = cut(*cuts)
    displayed = [("age",), *((a,) for a in attributes if a != "age")]
    displayed += [x for x in itertools.combinations([*attributes, "sex"], 2) if draw.random() < 1 / 2]
    return attributes, [fn.table(*x, variance=float(draw.uniform(0.5, 2))) for x in displayed]


def test_the_cost_is_that_of_the_costliest_possible_records(monkeypatch):
    """In fractions, from the exact answers to each possible record; and it is the optimum of a plan by values."""
    draw, compared = np.random.default_rng(42), 0
    monkeypatch.setattr(joint_axes, "MAX_JOINT_CELLS", 0)
    monkeypatch.setattr(joint_axes, "_structured_rows", lambda *_: 0)
    for number in range(60):
        attributes, tables = drawn_problem(draw)
        neighbours, size, outside = [(ADD, 1, "refuse"), (ADD, 3, "drop"), (REPLACE, 1, "drop")][number % 3]
        options = {"unit": fn.PrivacyUnit("person", size, neighbours=neighbours)}
        options["source"] = fn.DataSource("x", outside_domain=outside)
        plan = planned(attributes, tables, **options, gap=1e-7)
        if not classes_of(plan):
            continue
        compared += 1
        (one,) = plan.publication.domain.axes.joint.values()
        x, _, _ = form(plan.table_part.strategy, plan.order.domain, one)
        costs = [*x.diagonal()]
        # A record that can be left out comes and goes, and a replaced one does either.
        pairs = itertools.combinations(range(len(x)), 2) if neighbours is REPLACE else ()
        costs += [x[i, i] + x[j, j] - 2 * x[i, j] for i, j in pairs]
        assert max(costs) * size**2 == 2 * plan.loss.rho
        sentences = [*check(plan.to_json().encode(), plan.hash)]
        assert any("charge as stated" in x for x in sentences)
        assert any("bound as stated" in x and "variances at most" in x for x in sentences)
        with monkeypatch.context() as limit:
            limit.setattr(joint_axes, "MAX_JOINT_CELLS", 256)
            by_value = planned(attributes, tables, **options, gap=1e-7)
        assert classes_of(by_value) == {}
        assert plan.rho == pytest.approx(by_value.rho, rel=1e-5)
        if compared == 15:
            break
    assert compared == 15


def test_a_plan_states_the_classes():
    plan = planned()
    assert classes_of(plan) == {("age", "group"): 3}
    assert unrelated(plan) == ()
    (sentence,) = (english(x) for x in counted_jointly(plan))
    assert sentence == (
        "the attributes age, group read one column and are counted jointly, in 3 possible combinations of classes of "
        "their values; their tables agree"
    )
    assert fn.Plan.from_json(plan.to_json()).to_json() == plan.to_json()


# --- tables that agree --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("attributes", "tables"),
    [
        (AGES, TABLES),
        (AGES | {"band": cut(2, 6)}, [*TABLES, fn.table("band", "sex", margin=25)]),
        (AGES, [*SINGLE, fn.table("age", "group", margin=30)]),
    ],
)
def test_sums_agree_in_releases_answers_and_integer_tables(attributes, tables, rng):
    plan = planned(attributes, tables)
    assert classes_of(plan)
    domain, data = plan.publication.domain, records(rng, 200)
    groups = {a: [domain[a].cell(age) for age in range(12)] for a in attributes if a != "age"}
    for number in range(5):
        release = released(plan, data)
        integers = fn.make_integer_tables(release, simulations=2) if number == 0 else {}
        for source in filter(len, (release, integers)):
            for other, cells in groups.items():
                sums = np.bincount(cells, weights=source["age"]["value"])
                displayed = next(x for x in source if source[x].columns[0] == other)
                displayed = source[displayed].groupby(other, sort=False, observed=False)["value"].sum()
                np.testing.assert_allclose(sums, displayed, rtol=0, atol=0 if source is integers else 1e-9)
        for other, cells in groups.items():
            for cell in set(cells):
                single = release.count(**{other: domain[other].values[cell]})
                added = release.count(age={"values": [i for i, x in enumerate(cells) if x == cell]})
                assert float(single.value) == pytest.approx(float(added.value), abs=1e-9)
                assert single.std_error == pytest.approx(added.std_error, rel=1e-9)


def test_rows_of_impossible_combinations_are_zero(rng):
    release = released(planned(AGES, [*SINGLE, fn.table("age", "group", margin=30)]), records(rng))
    frame = release["age by group"]
    groups = fn.Domain(**AGES)["group"]
    pairs = zip(frame["age"], frame["group"], strict=True)
    possible = [groups.values[groups.cell(age)] == group for age, group in pairs]
    assert (frame["std_error"] > 0).tolist() == possible
    assert (frame["value"][~np.array(possible)] == 0).all()


# --- what classes carry, and what they do not ---------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {"unit": fn.PrivacyUnit("person", 4)},
        {"unit": fn.PrivacyUnit("person", 4, id="pid")},
        {"source": fn.DataSource("x", outside_domain="drop")},
        {"cell_budgets": fn.CellBudgets(("sex",), (1.0, 0.5))},
    ],
    ids=str,
)
def test_settings_about_other_attributes_leave_the_classes(options):
    plan = planned(**options)
    assert classes_of(plan) == {("age", "group"): 3}
    sentences = [*check(plan.to_json().encode(), plan.hash)]
    assert any("charge as stated" in x for x in sentences)
    assert any("bound as stated" in x for x in sentences)


@pytest.mark.parametrize(
    "options",
    [
        {"unit": fn.PrivacyUnit("person", 2, once_per=("sex",))},
        {"unit": fn.PrivacyUnit("person", 2, once_per=("group",))},
        {"unit": fn.PrivacyUnit("person", 4, per_value={"sex": 2})},
        {"unit": fn.PrivacyUnit("person", 4, separation={"age": 2})},
        {"unit": fn.PrivacyUnit("person", 4, fixed=("sex",))},
        {"public": fn.KnownTotals(("sex",), TOTALS)},
        {"public": fn.KnownTotals(("group",), TOTALS)},
        {"unit": fn.PrivacyUnit(neighbours=REPLACE), "public": fn.KnownTotals((), TOTALS)},
        {"privacy": "pure"},
        {"privacy": "auto"},
        {"mechanism": "fit-for-use-by-axis"},
        {"cell_budgets": fn.CellBudgets(("group",), (1.0, 0.5, 1.0))},
    ],
    ids=str,
)
def test_what_classes_do_not_carry_is_planned_as_before(options):
    """With a warning that the attributes are unrelated."""
    plan = planned(**options)
    assert plan.publication.domain.axes.joint == {}
    assert unrelated(plan) == (("age", "group"),)
    assert plan.rho > 0


def test_a_table_with_many_rows_in_order_is_planned_as_before():
    """Three classes and 8 values in order have 24 independent rows, and the time grows with their cube."""
    attributes = AGES | {"day": fn.Ordered(0, 7)}
    plan = planned(attributes, [*SINGLE, fn.table("group", cumulative="day", margin=40)])
    assert classes_of(plan) == {}
    assert unrelated(plan) == (("age", "group"),)


def test_classes_that_divide_tables_into_many_blocks_are_left_out(monkeypatch):
    """Each of 92 tables by age has a block for each of 100 classes, more than can be planned."""
    monkeypatch.setattr(joint_axes, "MAX_JOINT_CELLS", 256)
    others = {f"o{i}": fn.Categorical(["a", "b"]) for i in range(13)}
    displayed = [x for size in range(3) for x in itertools.combinations(others, size)]
    domain = fn.Domain(age=ages(999), group=cut(*range(10, 1000, 10)), **others)
    tables = [fn.table("group", margin=20), *(fn.table("age", *x, margin=50) for x in displayed)]
    assert classes_of(fn.plan(fn.Workload(domain, tables[:3]))) == {("age", "group"): 100}
    plan = fn.plan(fn.Workload(domain, tables))
    assert classes_of(plan) == {}
    assert unrelated(plan) == (("age", "group"),)


def test_amounts_are_planned_as_before():
    attributes = AGES | {"income": fn.Amount(0, 100, step=1)}
    plan = planned(attributes, [*TABLES, fn.table("sex", sum="income", margin=500)])
    assert classes_of(plan) == {}
    assert unrelated(plan) == (("age", "group"),)
    inside = AGES | {"total": fn.Amount(0, 11, step=1, column="x")}
    plan = planned(inside, [*TABLES, fn.table("group", sum="total", margin=200)])
    assert {one.names for one in plan.publication.domain.axes.joint.values()} == {("group", "total")}
    assert unrelated(plan) == (("age", "group"),)


def test_a_series_is_planned_as_before():
    attributes = AGES | {"month": fn.Ordered(1, 3)}
    plan = planned(attributes, [fn.table("month", a, margin=50) for a in AGES], series="month")
    assert classes_of(plan) == {}
    assert unrelated(plan) == (("age", "group"),)


# --- several releases ---------------------------------------------------------------------------------------


def linear(plan):
    """Return the queries of a plan's numbers on all records of (sex, age), and the covariance of their estimates."""
    domain, part = plan.publication.domain, plan.table_part
    group = [domain["group"].cell(age) for age in range(12)]
    cells = [{"sex": s, "age": a, "group": group[a]} for s in range(2) for a in range(12)]
    strategy = part.strategy
    ends = np.cumsum(strategy.lengths)[:-1]
    effects, queries = [], []
    for unit in np.eye(sum(strategy.lengths), dtype=np.int64):
        release = fn.Release(plan, np.split(unit, ends))
        effects.append(np.concatenate([release[name]["value"] for name in release]))
    for table in (plan.publication.workload[name] for name in plan.publication.workload.tables.names):
        shape = [domain[a].size for a in table.attributes]
        rows = np.zeros((math.prod(shape), len(cells)))
        for c, cell in enumerate(cells):
            rows[np.ravel_multi_index([cell[a] for a in table.attributes], shape), c] = 1
        views = [table.view(a).operator(domain[a]).mv(np.eye(domain[a].size)) for a in table.attributes]
        queries.append(functools.reduce(np.kron, views) @ rows)
    noise = np.array(effects).T * np.repeat(strategy.scales, strategy.portions)
    return np.concatenate(queries), noise @ noise.T


OTHERS = {
    "the same": (TABLES, {}),
    "one attribute": ([fn.table("group", margin=9)], {}),
    "a pair": ([fn.table("sex", "group", margin=9), fn.table("age", margin=40)], {}),
    "in order": ([fn.table(cumulative="age", margin=30), fn.table("sex", margin=8)], {}),
    "by value": ([fn.table(cumulative="age", margin=30), fn.table("group", margin=8)], {}),
    "budgets": ([fn.table("group", margin=9)], {"cell_budgets": fn.CellBudgets(("group",), (1.0, 0.5, 1.0))}),
}


@pytest.mark.parametrize("other", OTHERS)
def test_combined_releases_are_least_squares_over_possible_cells(other, rng):
    data, (tables, options) = records(rng), OTHERS[other]
    plans = planned(), planned(AGES, tables, **options)
    assert classes_of(plans[0]) == {("age", "group"): 3}
    releases = [released(plan, data) for plan in plans]
    rows, precisions, seen = [], [], []
    for plan, release in zip(plans, releases, strict=True):
        queries, covariance = linear(plan)
        rows.append(queries)
        precisions.append(np.linalg.pinv(covariance, rcond=1e-11))
        seen.append(np.concatenate([release[name]["value"] for name in release]))
    information = sum(q.T @ p @ q for q, p in zip(rows, precisions, strict=True))
    covariance = np.linalg.pinv(information, rcond=1e-11)
    counts = covariance @ sum(q.T @ p @ y for q, p, y in zip(rows, precisions, seen, strict=True))
    for order in (releases, releases[::-1]):
        combined = fn.combine(*order, same_records=True)
        for release, queries in zip(releases, rows, strict=True):
            stop = 0
            for name in release:
                start, stop = stop, stop + len(release[name])
                here = queries[start:stop]
                if name in combined:
                    frame = combined[name]
                    np.testing.assert_allclose(frame["value"], here @ counts, rtol=0, atol=1e-7)
                    variances = np.einsum("ij,jk,ik->i", here, covariance, here)
                    np.testing.assert_allclose(frame["std_error"], np.sqrt(variances), rtol=1e-7)


def test_rules_after_the_release_divide_classes(rng):
    """Estimates with rules are least squares over the possible cells of single values."""
    plan = planned()
    queries, covariance = linear(plan)
    data = records(rng)
    data = data[~((data.sex == "m") & data.x.isin([5, 6])) & ~((data.sex == "f") & (data.x < 4))]
    release = released(plan, data)
    rules = [{"age": {"values": [5, 6]}, "sex": "m"}, {"group": "under 4", "sex": "f"}]
    cells = [(s, a) for s in range(2) for a in range(12)]
    possible = [not (s == 1 and a in (5, 6)) and not (s == 0 and a < 4) for s, a in cells]
    queries = queries[:, possible]
    precision = np.linalg.pinv(covariance, rcond=1e-11)
    seen = np.concatenate([release[name]["value"] for name in release])
    inside = np.linalg.pinv(queries.T @ precision @ queries, rcond=1e-11)
    counts = inside @ queries.T @ precision @ seen
    ruled = fn.given(release, impossible=rules)
    stop = 0
    for name in release:
        start, stop = stop, stop + len(release[name])
        np.testing.assert_allclose(ruled[name]["value"], queries[start:stop] @ counts, rtol=0, atol=1e-7)
        variances = np.einsum("ij,jk,ik->i", queries[start:stop], inside, queries[start:stop])
        np.testing.assert_allclose(ruled[name]["std_error"], np.sqrt(variances), rtol=1e-7, atol=1e-9)


def test_releases_with_other_classes_are_not_combined(rng):
    """A release by values treats the values of a class differently, and one by classes has no other axis."""
    data, by_class = records(rng), planned()
    domain = fn.Domain(**AGES | {"age": ages(10)}, sex=SEX)
    by_other = fn.plan(fn.Workload(domain, TABLES))
    assert classes_of(by_other) == {("age", "group"): 3}
    with refused("release.attribute-defined-differently"):
        fn.combine(released(by_class, data), released(by_other, data[data.x < 11]), same_records=True)
    with refused("release.attributes-not-joint-everywhere"):
        fn.combine(released(by_class, data), released(planned(privacy="pure"), data), same_records=True)


def test_tables_without_cost_may_follow():
    """The profile of a plan by classes has an axis of joint cells, of which the costliest counts."""
    plan = planned(cell_budgets=fn.CellBudgets(("sex",), (1.0, 0.5)))
    assert classes_of(plan) == {("age", "group"): 3}
    males = fn.table(groups={"sex": {"males": {"values": ["m"]}}}, margin=50)
    free = fn.plan_free(fn.Workload(plan.publication.domain, [males]), [plan])
    profiles = [x.order.ledger_loss().profile for x in (plan, free)]
    assert joint(profiles) == joint(profiles[:1])
