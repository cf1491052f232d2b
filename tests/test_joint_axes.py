"""Attributes of one column that are planned jointly: their cells, prices, counts, and tables that agree."""

import datetime
import itertools
import json
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import fitnoise as fn
from fitnoise.errors import FitnoiseError
from fitnoise.kernel.ledger import Ledger
from fitnoise.kernel.profiles import joint as joint_cost
from fitnoise.messages import english
from fitnoise.planning.shared_columns import counted_jointly, unrelated
from fitnoise_check.plan import check
from laws.releases import answered, released
from refused import refused

BIRTH = {"age_on": "2024-06-30"}

COUNTY = {"A": "c1", "I": "c1", "J": "c10", "K": "c10", "B": "c4"}

SIZE = {"A": "BIG", "B": "BIG", "I": "small", "J": "small", "K": "small"}

SEX = fn.Categorical(["f", "m"])


SEX_ORDER = fn.Ordered(0, 1)


def lookup(values):
    return fn.Categorical(sorted(set(values.values())), column="x", lookup=values)


def part(date_part, low, high):
    return fn.Ordered(low, high, column="x", date_part=date_part)


def cut(*cuts):
    return fn.Binned(cuts, column="x")


def ages(low=0, high=85, **options):
    return fn.Ordered(low, high, column="x", **options)


PLACES = {"region": fn.Categorical(list("ABIJK"), column="x"), "county": lookup(COUNTY), "size": lookup(SIZE)}
AGES = {"age": ages(), "group": cut(18, 65)}
QUARTERS = {"quarter": part("quarter", 1, 4), "month": part("month", 1, 12)}
BIRTHS = {"year": part("year", 1990, 2019), "age": part(BIRTH, 4, 34)}
BINS = {"a": cut(10, 20, 30, 40), "b": cut(15, 25, 35)}


def one_way(attributes, *tables, margin=20, options=None, **further):
    domain = fn.Domain(**attributes, **further)
    one_each = [fn.table(a, margin=margin) for a in attributes]
    return fn.plan(fn.Workload(domain, [*one_each, *tables]), **(options or {}))


def joint_axes(plan):
    return {one.names: len(one.cells) for one in plan.publication.domain.axes.joint.values()}


def values(plan, rng, size=3000):
    """Return records for a plan over `x` and sex."""
    days = [datetime.date(int(y), int(m), 5) for y, m in rng.integers((1990, 1), (2020, 13), (size, 2))]
    names = set(plan.publication.domain)
    if {"quarter", "year"} & names:
        x = days
    else:
        x = rng.choice(list("ABIJK"), size) if "region" in names else rng.integers(0, 86, size)
    return pd.DataFrame({"x": x, "sex": rng.choice(["f", "m"], size)})


# --- known costs ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("attributes", "rho", "free_rho", "structured"),
    [
        (PLACES, 3.13406 / 400, 4.3318 / 400, (("region", 5),)),
        (AGES, 0.0094036, 0.0094945, (("age", 86),)),
        (QUARTERS, 0.0072027, 0.0089498, (("month", 12),)),
        (BIRTHS, 0.0077810, 0.0094201, (("year × age", 60),)),
    ],
)
def test_the_cost_is_the_known_optimum_over_possible_cells(attributes, rho, free_rho, structured):
    """The optima were computed by an independent program from the possible joint cells alone."""
    plan = one_way(attributes)
    assert plan.rho == pytest.approx(rho, rel=1e-4)
    assert plan.gap < 1e-6
    assert plan.table_part.strategy.structure.structured == structured
    assert plan.rho < free_rho * (1 - 1e-3)
    assert unrelated(plan) == ()
    (cells,) = joint_axes(plan).values()
    text = f"the attributes {', '.join(attributes)} read one column and are counted jointly, in their {cells} possible"
    (sentence,) = (english(x) for x in counted_jointly(plan))
    assert sentence == f"{text} combinations; their tables agree"


@pytest.mark.parametrize("attributes", [PLACES, AGES, QUARTERS, BIRTHS, BINS])
@pytest.mark.parametrize("privacy", ["zcdp", "pure"])
def test_the_checker_without_fitnoise_computes_the_same_charge_bound_and_variances(attributes, privacy):
    start, *_, last = attributes
    further = [fn.table("sex", start, margin=30)]
    if attributes in (AGES, QUARTERS, BIRTHS):
        further.append(fn.table("sex", cumulative=last, margin=25))
    plan = one_way(attributes, *further, sex=SEX, options={"privacy": privacy})
    sentences = [*check(plan.to_json().encode(), plan.hash)]
    assert any("charge as stated" in x for x in sentences)
    assert any("bound as stated" in x and ("variances at most" in x or privacy == "pure") for x in sentences)


def test_the_checker_places_joint_axes_as_the_domain_does():
    """A part can use a joint axis without the attribute that comes first in the domain."""
    attributes = {"a": cut(3, 6), "y": fn.Ordered(0, 3), "b": cut(4, 7), "c": cut(5, 8)}
    domain = fn.Domain(**attributes)
    tables = [[fn.table("b", cumulative="y", margin=9), fn.table("c", margin=5)], [fn.table("a", margin=5)]]
    main, further = (fn.Publication(fn.Workload(domain, x)) for x in tables)
    plan = fn.plan(replace(main, further_tables=(further,)))
    assert joint_axes(plan) == {("a", "b", "c"): 7}
    sentences = [*check(plan.to_json().encode(), plan.hash)]
    assert sum("charge as stated" in x for x in sentences) == sum("bound as stated" in x for x in sentences) == 2


def test_the_order_of_attributes_does_not_decide_which_are_counted_jointly():
    x = {"a": fn.Binned([3, 6], column="x"), "b": fn.Binned([4, 7], column="x"), "f": fn.Binned([2, 5], column="x")}
    y = {name: fn.Binned(cuts, column="y") for name, cuts in (("c", [3, 6]), ("d", [4, 7]), ("e", [5, 8]))}
    tables = [fn.table("a", "b", margin=9), fn.table("f", margin=9), *(fn.table(name, "a", margin=9) for name in y)]
    axes = [joint_axes(fn.plan(fn.Workload(fn.Domain(**attributes), tables))) for attributes in (x | y, y | x)]
    assert axes[0] == axes[1]
    assert len(axes[0]) == 2


def test_a_plan_lists_joint_cells_and_reads_them_back():
    plan = one_way(BINS)
    document = json.loads(plan.to_json())
    cells = [[0, 0], [1, 0], [1, 1], [2, 1], [2, 2], [3, 2], [3, 3], [4, 3]]
    assert document["joint_axes"] == [{"attributes": ["a", "b"], "cells": cells}]
    read = fn.Plan.from_json(plan.to_json())
    assert (read.hash, joint_axes(read)) == (plan.hash, {("a", "b"): 8})
    # A plan for such a publication, and one without joint cells, make the same plan again.
    assert fn.plan(plan.publication).hash == fn.plan(plan.publication.with_joint_axes(())).hash == plan.hash
    year_and_month = {"y": part("year", 2019, 2023), "m": part("month", 1, 12)}
    assert "joint_axes" not in json.loads(one_way(year_and_month).to_json())


@pytest.mark.parametrize("cells", [[[0, 0], [0, 0]], [[1, 0], [0, 0]], [[0]], [[0, 4]], [[0, True]], [], [["0", "0"]]])
def test_a_plan_with_another_list_is_refused(cells):
    document = json.loads(one_way(BINS).to_json())
    document["joint_axes"][0]["cells"] = cells
    with pytest.raises(FitnoiseError):
        fn.Plan.from_json(json.dumps(document))


# --- tables that agree ----------------------------------------------------------------------------------


@pytest.mark.parametrize("attributes", [PLACES, AGES, QUARTERS, BIRTHS, BINS])
def test_sums_agree_in_every_release_and_in_integer_tables(attributes, rng):
    """Detects a table that is not a sum over joint cells: by what all tables show of each joint cell's neighbours."""
    start = next(iter(attributes))
    plan = one_way(attributes, fn.table("sex", start, margin=30), sex=SEX)
    domain = plan.publication.domain
    (one,) = domain.axes.joint.values()
    for number in range(3):
        release = released(plan, values(plan, rng))
        integers = fn.make_integer_tables(release, simulations=2) if number == 0 else {}
        for source in filter(len, (release, integers)):
            tables = {a: source[a]["value"].to_numpy() for a in attributes}
            for a, b in itertools.combinations(attributes, 2):
                for here, there in linked(one.column(a), one.column(b)):
                    assert tables[a][here].sum() == pytest.approx(tables[b][there].sum(), abs=1e-9)
            assert source[f"sex by {start}"]["value"].sum() == pytest.approx(tables[start].sum(), abs=1e-9)


def linked(these, those):
    """Yield the smallest sets of cells of two attributes that contain the same joint cells."""
    rest = set(zip(these.tolist(), those.tolist(), strict=True))
    while rest:
        a, b = set(), {min(rest)[1]}
        while True:
            wider = {x for x, y in rest if y in b}, {y for x, y in rest if x in a} | b
            if wider == (a, b):
                break
            a, b = wider
        yield sorted(a), sorted(b)
        rest = {(x, y) for x, y in rest if x not in a}


# --- ten attributes of four columns ---------------------------------------------------------------------

VILLAGES = [f"p{i:02}" for i in range(12)]
OCCUPATIONS = [f"j{i:02}" for i in range(15)]


def of_four_columns(*, joint=True):
    """Ten attributes; without `joint`, each reads a column of its own, so they are free of each other."""

    def looked_up(name, column, values):
        return fn.Categorical(sorted({x for _, x in values}), column=column if joint else name, lookup=values)

    def in_order(name, column, low, high):
        date_part = None if column == "age" else name
        return fn.Ordered(low, high, column=column if joint else name, date_part=date_part)

    sizes = [(v, ["small", "large", "large", "small", "mid"][i % 5]) for i, v in enumerate(VILLAGES)]
    return {
        "age": in_order("age", "age", 0, 84),
        "band": fn.Binned([18, 40, 65], column="age" if joint else "band"),
        "region": looked_up("region", "village", [(v, "NESW"[i // 3]) for i, v in enumerate(VILLAGES)]),
        "county": looked_up("county", "village", [(v, f"c{i // 2}") for i, v in enumerate(VILLAGES)]),
        "size": looked_up("size", "village", sizes),
        "year": in_order("year", "day", 2020, 2024),
        "quarter": in_order("quarter", "day", 1, 4),
        "month": in_order("month", "day", 1, 12),
        "job": fn.Categorical(OCCUPATIONS, column="occupation" if joint else "job"),
        "field": looked_up("field", "occupation", [(j, "xyz"[i % 3]) for i, j in enumerate(OCCUPATIONS)]),
    }


TEN = [*of_four_columns()]
PAIRS = {
    ("band", "region"): 15, ("field", "year"): 15, ("county", "quarter"): 15, ("month", "size"): 15,
    ("job", "region"): 25,
}  # fmt: skip


def planned_of_ten(names, *, joint=True):
    """Plan single attributes at ±20, and pairs."""
    tables = [fn.table(a, margin=20) for a in names]
    tables += [fn.table(*pair, margin=margin) for pair, margin in PAIRS.items() if set(pair) <= set(names)]
    attributes = of_four_columns(joint=joint)
    return fn.plan(fn.Workload(fn.Domain(**{a: attributes[a] for a in names}), tables))


DAY, VILLAGE, JOB = ["year", "quarter", "month"], ["region", "county", "size"], ["job", "field"]

SHORT = {tuple(VILLAGE): 11, ("quarter", "month"): 12}


@pytest.mark.parametrize(
    ("names", "rho", "free_rho", "axes"),
    [
        (TEN, 0.0478683, 0.0531609, {**SHORT, ("age", "band"): 4, tuple(JOB): 3}),
        (TEN[1:], 0.0435028, 0.0484702, {**SHORT, tuple(JOB): 3}),
        (["age", "band"], 0.0092343, 0.0094939, {("age", "band"): 85}),
        (VILLAGE, 0.0096727, 0.0116598, {tuple(VILLAGE): 11}),
        (DAY, 0.0107992, 0.0125274, {("quarter", "month"): 12}),
        (JOB, 0.0080030, 0.0090409, {tuple(JOB): 15}),
    ],
)
def test_attributes_of_four_columns_cost_less_and_agree_where_they_are_counted_jointly(names, rho, free_rho, axes, rng):
    """The costs are those of this program: columns of few cells are counted by values, and the others by classes."""
    plan, free = planned_of_ten(names), planned_of_ten(names, joint=False)
    assert (plan.rho, free.rho) == (pytest.approx(rho, rel=1e-5), pytest.approx(free_rho, rel=1e-5))
    assert max(plan.gap, free.gap) < 1e-6
    assert (joint_axes(plan), joint_axes(free)) == (axes, {})
    dependent = {("age", "band"), tuple(VILLAGE), ("quarter", "month"), tuple(JOB)}
    assert {*unrelated(plan), *axes} == {x for x in dependent if set(x) <= set(names)}
    days = pd.to_datetime("2020-01-01") + pd.to_timedelta(rng.integers(0, 1826, 2000), unit="D")
    data = pd.DataFrame({
        "age": rng.integers(0, 85, 2000), "village": rng.choice(VILLAGES, 2000), "day": days.strftime("%Y-%m-%d"),
        "occupation": rng.choice(OCCUPATIONS, 2000),
    })  # fmt: skip
    for _ in range(2):
        release = released(plan, data)
        tables = {a: release[a]["value"].to_numpy() for a in names}
        for one in plan.publication.domain.axes.joint.values():
            for a, b in itertools.combinations(one.names, 2):
                for here, there in linked(one.column(a), one.column(b)):
                    sums = [tables[x][in_classes(one, x, cells)].sum() for x, cells in ((a, here), (b, there))]
                    assert sums[0] == pytest.approx(sums[1], abs=1e-9)


def in_classes(one, name, cells):
    """Return the values of an attribute in some classes of a joint axis; without classes, these are the values."""
    row = one.classes[one.names.index(name)]
    return np.flatnonzero(np.isin(row, cells)) if row else cells


@pytest.mark.parametrize(
    ("attributes", "tables"),
    [
        (AGES, [fn.table("sex", cumulative="age", margin=30), fn.table(cumulative="group", margin=25)]),
        (AGES, [fn.table("sex", groups={"group": {"adult": {"values": ["18 to under 65", "65 or more"]}}}, margin=25)]),
        (AGES, [fn.table(groups={"age": {"young": [0, 2], "old": {"values": [80, 3]}}}, margin=25)]),
        (BINS, [fn.table("sex", "b", margin=fn.ByAttribute("b", [1, 2, 3, 4]))]),
        (QUARTERS, [fn.table("sex", change="month", margin=25), fn.table(average={"month": 3}, margin=20)]),
        (QUARTERS, [fn.table("sex", average={"quarter": 2}, margin=25), fn.table(to_date={"quarter": 4}, margin=20)]),
        (PLACES, [fn.table("county", "sex", margin=5)]),
        (AGES, [fn.table("age", "sex", "group", margin=30), fn.table("group", cumulative="age", margin=40)]),
        (
            BINS,
            [
                fn.table("b", "a", margin=fn.ByAttribute("a", [1, 2, 3, 4, 5])),
                fn.all_tables(2, ["a", "b", "sex"], margin=9),
            ],
        ),
        ({"age": ages(), "group": cut(18, 65, 90)}, [fn.table("group", "sex", margin=10)]),
    ],
)
def test_variances_are_those_of_least_squares_over_joint_cells(attributes, tables):
    plan = one_way(attributes, *tables, sex=SEX)
    domain, workload = plan.publication.domain, plan.publication.workload
    (one,) = domain.axes.joint.values()
    strategy = plan.table_part.strategy
    cells = [(s, j) for s in range(2) for j in range(len(one.cells))]

    def matrix(table):
        rows = np.ones((1, len(cells)))
        for a in table.attributes:
            column = [s if a == "sex" else one.column(a)[j] for s, j in cells]
            view = table.view(a).operator(domain[a]).mv(np.eye(domain[a].size))[:, column]
            rows = (rows[:, None] * view[None]).reshape(-1, len(cells))
        return rows

    measured = []
    for group in strategy.groups:
        for i in range(len(group)):
            sector = group.sector(i)
            each = np.array(sector.rows, dtype=float)[:, [j for _, j in cells]] / sector.scale
            measured.append(each * [[1, -1][s] for s, _ in cells] if sector.attributes else each)
    covariance = np.linalg.pinv(sum(m.T @ m for m in measured), rcond=1e-12)
    for table in workload.tables:
        rows = matrix(table)
        expected = np.einsum("ij,jk,ik->i", rows, covariance, rows)
        achieved = plan.table_part.errors.table_variances(table.name).ravel()
        np.testing.assert_allclose(achieved, expected, rtol=1e-9, atol=1e-12)
        assert (achieved[~rows.any(axis=1)] == 0).all()


# --- counting -------------------------------------------------------------------------------------------


def test_counts_of_impossible_combinations_are_refused():
    """An array of counts can have them. The plan counts by the ages alone, and compares the groups with them."""
    plan = one_way(AGES)
    counts = np.zeros((86, 3), dtype=np.int64)
    counts[20, 1] = 5
    assert released(plan, counts)["group"]["value"].sum() == pytest.approx(5, abs=100)
    counts[20, 2] = 1
    with refused("data.combination-not-planned"):
        released(plan, counts)


@pytest.mark.parametrize("attributes", [AGES, BINS], ids=["own axis", "joint axis"])
def test_impossible_combinations_are_refused_where_groups_of_tables_count_the_attributes_separately(attributes):
    """The first group counts by the list, and the further one by the last attribute alone."""
    domain = fn.Domain(**attributes)
    last = list(attributes)[-1]
    both = fn.Publication(
        fn.Workload(domain, [fn.table(a, margin=20) for a in attributes]),
        fn.PrivacyUnit("person", 2, once_per=[last]),
    )
    further = fn.Publication(fn.Workload(domain, [fn.table(last, margin=20, name="again")]), both.unit)
    plan = fn.plan(replace(both, further_tables=(further,)))
    counts = np.zeros(domain.axes.shape, dtype=np.int64)
    counts[0, 0] = 5
    released(plan, counts)
    counts[0, -1] = 1
    with refused("data.combination-not-planned"):
        released(plan, counts)


@pytest.mark.parametrize("attributes", [AGES, BINS])
def test_a_plan_with_other_declarations_than_its_list_is_refused(attributes):
    document = json.loads(one_way(attributes).to_json())
    document["spec"]["domain"][list(attributes)[1]]["column"] = "y"
    with refused("plan.joint-axes-not-implied"):
        fn.Plan.from_json(json.dumps(document, separators=(",", ":"), ensure_ascii=False) + "\n")


def test_an_attribute_that_follows_from_another_is_read(tmp_path):
    """The ages above 85 are clipped in one attribute, and have no cell in the other one of the column."""
    attributes = {"age": ages(clip=True), "exact": ages()}
    records = pd.DataFrame({"x": [20, 20, 90]})
    plan = one_way(attributes, margin=0.1)
    assert joint_axes(plan) == {("age", "exact"): 86}
    assert plan.table_part.strategy.structure.structured == (("age", 86),)
    with refused("data.records-outside-domain"):
        fn.release(plan, records, ledger=tmp_path / "l.sqlite", directory=tmp_path / "r")
    plan = one_way(attributes, margin=0.1, options={"source": fn.DataSource("x", outside_domain="drop")})
    release = released(plan, records)
    for table in attributes:
        assert release[table]["value"].sum() == pytest.approx(2, abs=2)  # over four standard errors


# --- promises about the records of a person ---------------------------------------------------------------


PATTERNS = [
    {"once_per": ["fine"]},
    {"once_per": ["coarse"]},
    {"once_per": ["fine", "coarse"]},
    {"once_per": ["coarse", "sex"]},
    {"once_per": ["fine"], "fixed": ["coarse", "sex"]},
    {"per_value": {"coarse": 2}},
    {"per_value": {"fine": 1, "coarse": 2}},
    {"separation": {"coarse": 2}},
    {"fixed": ["coarse"]},
]


def in_pattern(attributes, pattern, **options):
    """A plan for a person with several records, where a pattern names the finer and the coarser attribute."""
    names = dict(zip(["coarse", "fine"] if attributes is QUARTERS else ["fine", "coarse"], attributes, strict=True))
    rules = {
        rule: {names.get(a, a): n for a, n in x.items()} if isinstance(x, dict) else [names.get(a, a) for a in x]
        for rule, x in pattern.items()
    }
    return fn.PrivacyUnit("person", 4, **rules, **options)


@pytest.mark.parametrize("attributes", [QUARTERS, BINS], ids=["own axis", "joint axis"])
@pytest.mark.parametrize("pattern", PATTERNS, ids=str)
def test_a_pattern_of_records_may_name_attributes_of_a_joint_axis(attributes, pattern):
    """The price is that of the kernel and of the checker, and less than where the attributes are unrelated."""
    unit = in_pattern(attributes, pattern)
    tables = [fn.table("sex", a, margin=30) for a in attributes]
    plan = one_way(attributes, *tables, sex=SEX, options={"unit": unit})
    assert len(joint_axes(plan)) == 1
    assert unrelated(plan) == ()
    assert plan.bound <= plan.loss.cost_squared * (1 + 1e-9)
    sentences = [*check(plan.to_json().encode(), plan.hash)]
    assert any("charge as stated" in x for x in sentences)
    is_one = "per_value" not in pattern and "sex" not in pattern.get("once_per", ()) and "fixed" not in pattern
    assert any("bound as stated" in x for x in sentences) or not is_one
    last = list(attributes)[-1]
    separate = attributes | {last: replace(attributes[last], column="y")}
    assert plan.rho <= one_way(separate, *tables, sex=SEX, options={"unit": unit}).rho


def test_months_and_quarters_of_one_date_once_a_month(rng, tmp_path):
    """A release of persons: tables agree, and the records of a month count once."""
    unit = fn.PrivacyUnit("person", 12, id="pid", once_per=["month"])
    tables = [fn.table("sex", a, margin=30) for a in QUARTERS]
    plan = one_way(QUARTERS, *tables, margin=0.5, sex=SEX, options={"unit": unit})
    assert plan.table_part.strategy.structure.structured == (("month", 12),)
    assert plan.gap < 1e-3
    days = [datetime.date(2024, int(m), int(d)) for m, d in rng.integers((1, 1), (13, 29), (600, 2))]
    records = pd.DataFrame({"x": days, "sex": "f", "pid": rng.integers(0, 40, 600)})
    release = fn.release(plan, records, ledger=tmp_path / "l.sqlite", directory=tmp_path / "r")
    assert all(x.holds for x in fn.verify(tmp_path / "r").checks if x.holds is not None)
    months, quarters = (release[a]["value"].to_numpy() for a in ("month", "quarter"))
    np.testing.assert_allclose(months.reshape(4, 3).sum(axis=1), quarters, rtol=0, atol=1e-9)
    counted = records.assign(month=[d.month for d in days]).drop_duplicates(["pid", "month"]).groupby("month").size()
    np.testing.assert_allclose(months, counted.reindex(range(1, 13), fill_value=0), atol=3)


@pytest.mark.parametrize("attributes", [QUARTERS, BINS], ids=["own axis", "joint axis"])
def test_plans_on_the_same_records_add_up_by_joint_cell(attributes):
    """Costs of one list add up cell by cell; a plan without the list may have counted records outside it."""
    unit = in_pattern(attributes, {"once_per": ["coarse"]})
    start, last = attributes
    plans = [
        one_way(attributes, fn.table("sex", cumulative=last, margin=25), sex=SEX, options={"unit": unit}),
        one_way(attributes, fn.table("sex", start, margin=9), sex=SEX, options={"unit": unit}),
    ]
    domain = fn.Domain(**attributes, sex=SEX)
    plans.append(fn.plan(fn.Workload(domain, [fn.table(cumulative=last, margin=9)]), unit=unit))
    assert [len(joint_axes(plan)) for plan in plans] == [1, 1, 0]
    assert len({plan.order.account for plan in plans}) == 1
    profile, *others = (plan.order.ledger_loss().profile for plan in plans)
    # The axis of months is the same in all three plans: a month determines its quarter.
    assert [p.axes == profile.axes for p in others] == [True, attributes is QUARTERS]
    for other in others:
        sums = map(sum, zip(profile.values, other.values, strict=False))
        largest = Fraction(max(sums), 2**64) if other.axes == profile.axes else profile.largest + other.largest
        assert joint_cost([profile, other]) == largest
    with Ledger(":memory:") as ledger:
        prices = [plan.order.ledger_loss() for plan in plans]
        account, (plan, other, _) = plans[0].order.account, plans
        ledger.charge(account, prices[0], {"plan": plan.hash})
        ledger.charge(account, prices[1], {"plan": other.hash}, composed_with=[plan.hash])
        assert ledger.balance(account).spent == joint_cost([profile, others[0]])


def test_tables_that_do_not_count_by_an_attribute_of_the_pattern_claim_no_bound_of_sets():
    """The further tables show groups alone: which ages of one group a person can have is not known to them."""
    domain = fn.Domain(**BINS, sex=SEX)
    both = fn.Publication(
        fn.Workload(domain, [fn.table(a, margin=20) for a in BINS]), fn.PrivacyUnit("person", 3, once_per=["a"])
    )
    single = fn.Publication(fn.Workload(domain, [fn.table("b", "sex", margin=20)]), both.unit)
    plan = fn.plan(replace(both, further_tables=(single,)))
    assert joint_axes(plan) == {("a", "b"): 8}
    here, there = (part.terms for part in plan.groups)
    assert here.sets is not None
    assert (there.sets, there.distinct, there.factor) == (None, None, 1)
    assert all(part.bound <= part.exact_cost for part in plan.groups)
    sentences = [*check(plan.to_json().encode(), plan.hash)]
    assert sum("charge as stated" in x for x in sentences) == 2


# --- where attributes stay free of each other ---------------------------------------------------------------


def free(plan):
    assert joint_axes(plan) == {}
    return unrelated(plan)


def test_attributes_stay_free_where_a_plan_needs_their_own_axes():
    pair = [("age", "group")]
    budgets = fn.CellBudgets(("group",), (1.0, 0.5, 1.0))
    assert free(one_way(AGES, options={"cell_budgets": budgets})) == tuple(pair)
    # Too many joint cells to plan them one by one, and each value is a class.
    crossing = {"u": cut(*range(1, 400)), "v": cut(*(i + 0.5 for i in range(400)))}
    assert free(one_way(crossing)) == (("u", "v"),)
    # More counts than the memory should hold, and attributes without a value in common.
    crossing = {"u": cut(*range(1, 200)), "v": cut(*(i + 0.5 for i in range(56)))}
    assert free(one_way(crossing, fn.table("v", "c", margin=90), c=fn.Categorical(list(range(2000))))) == (("u", "v"),)
    assert free(one_way({"p": ages(0, 3), "q": ages(5, 9)})) == (("p", "q"),)
    assert free(one_way(BINS, fn.table("a × b", margin=20), **{"a × b": SEX})) == (("a", "b"),)
    # One part shows a value with noise, and the other one would show it as 0.
    wide = fn.Domain(age=ages(0, 10), group=cut(4, 8, 13))
    single = fn.Publication(fn.Workload(wide, [fn.table("group", margin=20, name="groups only")]))
    both = fn.Publication(fn.Workload(wide, [fn.table(a, margin=20) for a in ("age", "group")]))
    assert free(fn.plan(replace(single, further_tables=(both,)))) == tuple(pair)
    by_axis = {"mechanism": "fit-for-use-by-axis"}
    bands = fn.table("sex", cumulative="other", margin=30)
    assert free(
        one_way(AGES, fn.table("age", "group", margin=30), bands, sex=SEX, other=SEX_ORDER, options=by_axis)
    ) == tuple(pair)


def test_a_pattern_of_tables_is_counted_jointly():
    for order in (1, 2):
        tables = fn.all_tables(order, ["age", "group", "sex"], margin=30)
        plan = fn.plan(fn.Workload(fn.Domain(**AGES, sex=SEX), [tables]))
        assert joint_axes(plan) == {("age", "group"): 86}
        sentences = [english(x) for x in counted_jointly(plan)]
        assert sentences[1:] == ["rows for other combinations of age, group are 0 ± 0"] * (order - 1)


@pytest.mark.parametrize("privacy", ["zcdp", "pure"])
@pytest.mark.parametrize("attributes", [AGES, BINS, {"age": ages(), "group": cut(18, 65, 90)}])
def test_rows_of_impossible_combinations_are_zero_everywhere(attributes, privacy, rng, tmp_path):
    """A table of both attributes, with another one between them, in a release, integer tables and invented records."""
    start, last = attributes
    domain = fn.Domain(**attributes, sex=SEX)
    tables = [fn.table(start, margin=20), fn.table(last, margin=20), fn.table(start, "sex", last, margin=60)]
    plan = fn.plan(fn.Workload(domain, tables), privacy=privacy)
    (one,) = plan.publication.domain.axes.joint.values()
    assert any("bound as stated" in x for x in check(plan.to_json().encode(), plan.hash))
    release = fn.release(plan, values(plan, rng), ledger=tmp_path / "l.sqlite", directory=tmp_path / "r")
    assert all(x.holds for x in fn.verify(tmp_path / "r").checks if x.holds is not None)
    integers = fn.make_integer_tables(release, simulations=2)
    possible = {(domain[start].values[i], domain[last].values[j]) for i, j in one.cells}
    for source in (release, integers):
        frame = source[f"{start} by sex by {last}"]
        impossible = [pair not in possible for pair in zip(frame[start], frame[last], strict=True)]
        assert 0 < sum(impossible) < len(frame)
        assert (frame["value"][impossible] == 0).all()
        for a in attributes:
            sums = frame.groupby(a, sort=False, observed=False)["value"].sum()
            np.testing.assert_allclose(sums.reindex(source[a][a]), source[a]["value"], rtol=0, atol=1e-8)
    assert (release[f"{start} by sex by {last}"]["std_error"][impossible] == 0).all()
    records = fn.microdata(integers, batches=20, anyway=True)
    distances = [x["from_integers"]["largest"] for x in records.attrs["microdata"]["tables"]]
    assert len(distances) == 3
    assert np.isfinite(distances).all()


def test_a_series_keeps_the_axes_of_its_attributes(tmp_path):
    domain = fn.Domain(month=fn.Ordered(1, 3), **AGES)
    tables = [fn.table("month", a, margin=50) for a in AGES]
    plan = fn.plan(fn.Workload(domain, tables), series="month")
    assert free(plan) == (("age", "group"),)
    records = pd.DataFrame({"x": [3, 30, 70], "month": [1, 1, 1]})
    released = fn.release(plan, records, ledger=tmp_path / "l.sqlite", series=tmp_path / "s", period=1)
    assert set(released) == {"month by age", "month by group"}


def test_tables_of_separate_parts_agree_within_their_part():
    domain = fn.Domain(**AGES)
    separate = [fn.Publication(fn.Workload(domain, [fn.table(a, margin=20)])) for a in AGES]
    plan = fn.plan(replace(separate[0], further_tables=(separate[1],)))
    assert free(plan) == (("age", "group"),)
    both = fn.Publication(fn.Workload(domain, [fn.table(a, margin=20) for a in AGES]))
    further = fn.Publication(fn.Workload(domain, [fn.table("group", margin=30, name="once more")]))
    plan = fn.plan(replace(both, further_tables=(further,)))
    assert joint_axes(plan) == {("age", "group"): 86}
    assert [x.strategy.structure for x in plan.groups][1].exchangeable == (("group", 3),)


@pytest.mark.parametrize("privacy", ["zcdp", "pure", "auto"])
def test_each_kind_of_noise_counts_jointly(privacy, rng):
    plan = one_way(BINS, options={"privacy": privacy})
    assert joint_axes(plan) == {("a", "b"): 8}
    release = released(plan, values(plan, rng))
    assert release["a"]["value"].sum() == pytest.approx(release["b"]["value"].sum(), abs=1e-9)


def test_tables_without_cost_leave_the_costs_of_joint_cells():
    by_sex = fn.table("sex", "a", margin=30)
    plan = one_way(BINS, by_sex, sex=SEX, options={"cell_budgets": fn.CellBudgets(("sex",), (1.0, 0.5))})
    males = fn.table(groups={"sex": {"males": {"values": ["m"]}}}, margin=50)
    free = fn.plan_free(fn.Workload(plan.publication.domain, [males]), [plan])
    profiles = [x.order.ledger_loss().profile for x in (plan, free)]
    assert joint_cost(profiles) == joint_cost(profiles[:1])
    with refused("plan.nothing-free"):
        fn.plan_free(fn.Workload(plan.publication.domain, [males]), [one_way(BINS, by_sex, sex=SEX)])


def test_ages_in_few_groups_are_counted_by_class():
    plan = one_way({"age": ages(0, 1999), "group": cut(18, 65)})
    assert joint_axes(plan) == {("age", "group"): 3}
    assert unrelated(plan) == ()


# --- integer tables of values that no record has -------------------------------------------------------------


@pytest.mark.parametrize("view", [{"cumulative": "group"}, {"to_date": {"group": 4}}, {"ranges": {"group": [(0, 2)]}}])
@pytest.mark.parametrize("cuts", [(4, 8, 13), (0, 4), (2, 2.5, 5)])
def test_integer_tables_agree_where_values_are_never_reached(view, cuts, rng):
    """The first, a middle or the last value of a group is in no joint cell."""
    if "ranges" in view:
        view = {"ranges": {"group": [("under " + f"{cuts[0]:g}", f"{cuts[0]:g} to under {cuts[1]:g}")]}}
    plan = one_way({"age": ages(0, 10), "group": cut(*cuts)}, fn.table(**view, margin=5, name="view"), margin=5)
    (one,) = plan.publication.domain.axes.joint.values()
    queries = plan.publication.workload["view"].view("group").operator(plan.publication.domain["group"])
    for size in (4, 300):
        records = pd.DataFrame({"x": rng.integers(0, 11, size)})
        integers = fn.make_integer_tables(released(plan, records), simulations=2)
        counts = integers["age"]["value"].to_numpy()
        by_group = np.bincount(one.column("group"), weights=counts[one.column("age")], minlength=len(cuts) + 1)
        np.testing.assert_array_equal(integers["group"]["value"], by_group)
        np.testing.assert_array_equal(integers["view"]["value"], queries.mv(by_group))


def test_integer_tables_in_order_may_have_rows_without_noise(rng):
    domain = fn.Domain(age=ages(0, 10), group=cut(4, 8, 13), sex=SEX)
    plan = fn.plan(fn.Workload(domain, [fn.table("age", margin=5), fn.table("age", "group", "sex", margin=5)]))
    records = values(plan, rng, 200).assign(x=rng.integers(0, 11, 200))
    parts = {"low": released(plan, records), "high": released(plan, pd.concat([records] * 3))}
    rules = ["low: age <= high: age", "low: age by group by sex <= high: age by group by sex"]
    integers = fn.make_integer_tables(parts, at_most=rules, simulations=0)
    for table in ("age", "age by group by sex"):
        assert (integers[f"low: {table}"]["value"] <= integers[f"high: {table}"]["value"]).all()


def test_a_table_of_impossible_values_only_is_zero():
    z = fn.table(groups={"group": {"z": {"values": ["13 or more"]}}}, margin=5, name="z")
    plan = one_way({"age": ages(0, 10), "group": cut(4, 8, 13)}, z)
    for tables in ("z", None):
        assert fn.make_integer_tables(answered(plan, 3), tables=tables, simulations=2)["z"]["value"].tolist() == [0]


# --- several releases ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("attributes", "other"),
    [
        (BINS, [fn.table("a", margin=20)]),
        (AGES, [fn.table("group", margin=10), fn.table("sex", margin=5)]),
        (AGES, [fn.table("age", margin=30), fn.table("group", margin=30)]),
        (BINS, [fn.table("a", "b", margin=30), fn.table("b", "sex", margin=30)]),
        (PLACES, [fn.table("county", margin=20), fn.table("size", margin=20)]),
    ],
)
def test_combined_releases_are_least_squares_over_joint_cells(attributes, other, rng, tmp_path):
    start = next(iter(attributes))
    plan = one_way(attributes, fn.table("sex", start, margin=30), sex=SEX)
    domain = plan.publication.domain
    records = values(plan, rng)
    plans = (plan, fn.plan(fn.Workload(domain.with_joint_axes(()), other)))
    releases = [released(p, records) for p in plans]
    (one,) = domain.axes.joint.values()
    cells = [(s, *j) for s in range(2) for j in one.cells]
    names = ["sex", *one.names]

    def position(plan, axis, cell):
        joint = plan.publication.domain.axes.joint.get(axis)
        if joint is None:
            return cell[names.index(axis)]
        return joint.cells.index(tuple(cell[names.index(a)] for a in joint.names))

    rows, answers = [], []
    for p, release in zip(plans, releases, strict=True):
        structure = p.table_part.strategy.structure
        for group, noisy in zip(p.table_part.strategy.groups, release.answers, strict=True):
            for i in range(len(group)):
                sector, columns = group.sector(i), []
                for cell in cells:
                    column = np.ones(1)
                    for n, a in zip(sector.sizes, sector.attributes, strict=True):
                        z = cell[names.index(structure.exchangeable[a][0])]
                        centred = np.array([[1, -1]]) if n == 2 else n * np.eye(n) - 1
                        column = np.kron(column, centred[:, z])
                    inner = [position(p, a, cell) for a, _ in structure.structured]
                    o = int(np.ravel_multi_index(inner, structure.shape)) if inner else 0
                    columns.append(np.kron(column, np.array(sector.rows, dtype=float)[:, o]))
                rows.append(np.array(columns).T / sector.scale)
                start, stop = group.starts[i : i + 2]
                answers.append(np.array(noisy[start:stop], dtype=float) / sector.scale)
    rows, answers = np.concatenate(rows), np.concatenate(answers)
    counts = np.linalg.lstsq(rows, answers, rcond=1e-11)[0]
    covariance = np.linalg.pinv(rows.T @ rows, rcond=1e-11)
    for order in (releases, releases[::-1]):
        combined = fn.combine(*order, same_records=True)
        for name, frame in combined.items():
            table = combined._workload[name]
            shape = [domain[a].size for a in table.attributes]
            queries = np.zeros((math.prod(shape), len(cells)))
            for c, cell in enumerate(cells):
                queries[np.ravel_multi_index([cell[names.index(a)] for a in table.attributes], shape), c] = 1
            np.testing.assert_allclose(frame["value"], queries @ counts, rtol=0, atol=1e-8)
            variances = np.einsum("ij,jk,ik->i", queries, covariance, queries)
            np.testing.assert_allclose(frame["std_error"], np.sqrt(variances), rtol=1e-8)


def test_releases_by_other_joint_cells_are_not_combined():
    """An attribute that one release reads alone leaves fewer joint cells for all: some rows would be left out."""
    codes = fn.Categorical([5, 12, 22, 27, 32, 37, 45], column="x")
    domain = fn.Domain(**BINS, c=codes)
    plans = [fn.plan(fn.Workload(domain, [fn.table(a, margin=20) for a in names])) for names in ("ab", "c")]
    assert [len(x) for x in map(joint_axes, plans)] == [1, 0]
    with refused("release.attributes-not-joint-everywhere"):
        fn.combine(answered(plans[0]), answered(plans[1], 3), same_records=True)


def test_releases_that_count_attributes_otherwise_are_not_combined():
    plan = one_way(BINS)
    queries = fn.plan(fn.matrix_workload(np.eye(1, 20, dtype=int), margins=30, domain=fn.Domain(**BINS)))
    with refused("release.attributes-not-joint-everywhere"):
        fn.combine(answered(plan), answered(queries), same_records=True)


@pytest.mark.parametrize("axis", ["joint", "own"])
def test_rules_about_impossible_cells_hold_on_a_joint_axis(axis):
    """A rule on an attribute that follows from another one: the cells of both are gone."""
    attributes = BINS if axis == "joint" else AGES
    last = list(attributes)[-1]
    plan = one_way(attributes, fn.table("sex", last, margin=30), sex=SEX)
    value = plan.publication.domain[last].values[0]
    restricted = fn.given(answered(plan, 5), impossible=[{last: value, "sex": "m"}])
    row = restricted[f"sex by {last}"].set_index(["sex", last]).loc[("m", value)]
    assert (row["value"], row["std_error"]) == (0, 0)
    assert restricted[last]["value"].sum() == pytest.approx(restricted[next(iter(attributes))]["value"].sum(), abs=1e-9)


# --- invented records ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("attributes", "tables"),
    [(AGES, []), (PLACES, []), (AGES, [fn.table("sex", "age", margin=40)]), (QUARTERS, [fn.table("sex", margin=9)])],
)
def test_invented_records_have_possible_combinations(attributes, tables, rng):
    """The values of all attributes follow from one of them, and their tables are counted from the records."""
    sex = {"sex": SEX} if tables else {}
    plan = one_way(attributes, *tables, margin=40, **sex)
    domain = plan.publication.domain
    (one,) = domain.axes.joint.values()
    integers = fn.make_integer_tables(released(plan, values(plan, rng)), simulations=2)
    records = fn.microdata(integers, batches=30)
    columns = [[domain[a].position(x) for x in records[a]] for a in one.names]
    assert set(zip(*columns, strict=True)) <= set(one.cells)
    for a in one.names:
        counts = records[a].value_counts()
        table = integers[a].set_index(a)["value"]
        assert {x: counts.get(x, 0) for x in table.index} == table.to_dict()
