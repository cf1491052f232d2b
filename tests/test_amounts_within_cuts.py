"""An amount and cuts of one column: a record costs what its amount can be in its cell of the cuts, and no more."""

import itertools
import json
import math
import sqlite3
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import fitnoise as fn
from fitnoise.engines import open_counter
from fitnoise.errors import FitnoiseError
from fitnoise.kernel.counting.joint_counts import sum_up
from fitnoise.kernel.domain import Domain as AxisDomain
from fitnoise.kernel.domain import JointAxis, cells_with_amount
from fitnoise.kernel.units import DataSource
from fitnoise.messages import english
from fitnoise.planning.shared_columns import counted_jointly
from fitnoise_check.plan import check
from laws.releases import answered, released
from refused import refused

BRACKETS = fn.Binned([10_000, 50_000, 100_000], column="income")
INCOME = fn.Amount(0, 200_000, step=100)
STEPS = ((0, 0), (0, 100), (1, 100), (1, 500), (2, 500), (2, 1000), (3, 1000), (3, 2000))

SMALL = {
    "plain": (fn.Amount(0, 12, step=1, column="x"), fn.Binned([3, 7], column="x")),
    "between steps": (fn.Amount(-4, 8, step=2, column="x"), fn.Binned([-3, 0.5, 5, 100], column="x")),
    "ceilings": (fn.Amount(0, 12, step=1, ceilings=[5, 6], column="x"), fn.Binned([3.5, 9], column="x")),
    "at the ends": (fn.Amount(0, 4, step=1, column="x"), fn.Binned([-1, 0, 2, 3, 4, 9], column="x")),
    "missing": (
        fn.Amount(0, 6, step=2, valid=(-9, 40), missing={"none": ["N"], "odd": [-9]}, if_missing="none",
                  if_outside="odd", column="x"),
        fn.Binned([2, 5], missing={"unknown": ["N", 3]}, if_missing="unknown", if_outside="unknown", column="x"),
    ),
    "all steps are knots": (fn.Amount(0, 3, step=1, ceilings=[1, 2], column="x"), fn.Binned([1.5], column="x")),
    "decimals": (fn.Amount(0, 0.9, step=0.1, column="x"), fn.Binned([0.15, 0.3, 0.85], column="x")),
}  # fmt: skip


def workload(amount, bins, *tables, **attributes):
    domain = fn.Domain(**attributes, bins=bins, amount=amount)
    return fn.Workload(domain, tables or [fn.table("bins", margin=3), fn.table(sum="amount", margin=9)])


def joint(publication):
    return {one.names: one.cells for one in publication.domain.axes.joint.values()}


def numbers(bins, amount):
    """Return numbers at, and next to, all ends of cuts and of roundings, far ones, and in between."""
    steps = amount.exact
    halves = [steps.low + steps.step * Fraction(i, 2) for i in range(-3, 2 * amount.coding.values.max_step + 4)]
    exact = [*map(float, halves), *bins.cuts, *(amount.valid or ()), 0.0, -9.0, 3.0]
    neighbours = [y for x in exact for y in (math.nextafter(x, -math.inf), x, math.nextafter(x, math.inf))]
    return sorted({*neighbours, 1e300, -1e300})


# --- known costs ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("records", "cost"), [(0.3, 11.1111111), (1, 1.1606839), (3, 1.0074627)])
def test_the_cost_is_the_known_optimum(records, cost):
    """An independent program computed the optima over (b, lo_b) and (b, hi_b); free of each other 11.680 and so on."""
    tables = [fn.table("bins", variance=1), fn.table(sum="amount", std_error=records * 200_000)]
    plan = fn.plan(workload(replace(INCOME, column="income"), BRACKETS, *tables))
    assert 2 * plan.rho == pytest.approx(cost, rel=1e-6)
    assert plan.gap < 1e-6
    assert joint(plan.publication) == {("bins", "amount"): STEPS}
    sentences = [*check(plan.to_json().encode(), plan.hash)]
    assert any("charge as stated" in x for x in sentences)
    assert any("bound as stated" in x and "variances at most" in x for x in sentences)
    (sentence,) = (english(x) for x in counted_jointly(plan))
    text = "the attributes bins, amount read one column and are counted jointly: each amount lies within its bin"
    assert sentence == f"{text}, so a record costs less"


def test_both_kinds_of_noise_are_compared_by_their_own_plans():
    tables = [fn.table("bins", variance=1), fn.table(sum="amount", std_error=2e5)]
    few = workload(replace(INCOME, column="income"), BRACKETS, *tables)
    assert joint(fn.plan(few, privacy="pure").publication) == {}
    assert float(fn.compare(few).gaussian.exact_cost) / 2 == pytest.approx(fn.plan(few).rho, rel=1e-9)


# --- which records lie where ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", SMALL)
def test_every_record_lies_between_the_steps_of_its_cell_and_some_record_at_each(name):
    amount, bins = SMALL[name]
    cells = cells_with_amount(bins.axis, amount.axis)
    last, achieved = amount.coding.values.max_step, set()
    for x in [*numbers(bins, amount), None, "", "N", "-9", " 3 ", "2.0e0", True, math.nan, math.inf, "x"]:
        b, j = bins.cell(x), amount.cell(x)
        if b is None or j is None:
            continue
        steps = [k for c, k in cells if c == b and k <= last]
        assert min(steps) <= j <= max(steps) if j <= last else (b, j) in cells
        achieved.add((b, j))
    own_cells = bins.coding.values.size
    ends = {(b, f([k for c, k in cells if c == b and k <= last])) for b in range(own_cells) for f in (min, max)}
    assert ends <= achieved


@given(
    st.integers(-50, 50), st.integers(1, 40), st.sampled_from(["1", "0.1", "0.25", "3", "0.007"]), st.data(),
)  # fmt: skip
def test_the_steps_of_cuts_are_exact_for_any_declaration(low, width, step, data):
    step = Fraction(step)
    ends = low * step, (low + width) * step
    amount = fn.Amount(*map(float, ends), step=float(step), column="x")
    neighbours = st.floats(float(ends[0]) - 2, float(ends[1]) + 2)
    cuts = sorted(
        data.draw(st.sets(neighbours | st.sampled_from([float(ends[0]), float(ends[1])]), min_size=1, max_size=4))
    )
    assume(all(a < b for a, b in itertools.pairwise(x + 0.0 for x in cuts)))
    bins = fn.Binned(cuts, column="x")
    cells = cells_with_amount(bins.axis, amount.axis)
    for x in [*numbers(bins, amount), data.draw(neighbours)]:
        steps = [k for c, k in cells if c == bins.cell(x)]
        assert min(steps) <= amount.cell(x) <= max(steps)
    for b, (x, y) in enumerate(itertools.pairwise([-1e300, *map(float, bins.cuts), 1e300])):
        assert [min(k for c, k in cells if c == b), max(k for c, k in cells if c == b)] == [
            amount.cell(x), amount.cell(math.nextafter(y, -math.inf))
        ]  # fmt: skip


def test_missing_values_of_one_are_free_of_those_of_the_other():
    amount, bins = SMALL["missing"]
    cells = cells_with_amount(bins.axis, amount.axis)
    assert {(3, 0), (3, 3), (3, 4), (3, 5), (0, 4), (0, 5), (2, 4)} <= set(cells)
    assert (bins.cell(3), amount.cell(3)) == (3, 2)  # a code of the one is a number of the other
    assert (bins.cell("N"), amount.cell("N")) == (3, 4)
    assert (bins.cell(-9), amount.cell(-9)) == (0, 5)
    assert (bins.cell(50), amount.cell(50)) == (2, 5)


# --- what a record costs --------------------------------------------------------------------------------


class Counted:
    """The counts of records over the margins of a design."""

    left_out = None

    def __init__(self, domain, values):
        self.domain, self.values = domain, values

    def __getitem__(self, margin):
        axes = self.domain.counting_axes(margin)
        names = [a for names, _ in axes for a in names]
        out = np.zeros([self.domain.sizes[a] for a in names], dtype=np.int64)
        cells = [self.domain.cells({self.domain.column(a): x for a in self.domain}) for x in self.values]
        columns = [np.array([c[a] for c in cells]) for a in names]
        sum_up(out, columns, [self.domain.steps.get(a, ()) for a in names], np.ones(len(cells), dtype=np.int64))
        return self.domain.counts_along(out, axes)


def distance(strategy, domain, values):
    """Return the squared distance of the exact answers of records from those of none, in units of the noise."""
    exact = strategy.exact_answers(Counted(domain, values), None, 100)
    scales = np.repeat(strategy.scales, strategy.portions)
    parts = zip(np.concatenate([*exact]).tolist(), scales.tolist(), strict=True)
    return sum(Fraction(x) ** 2 / Fraction(scale) ** 2 for x, scale in parts)


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("looser", [1, 7])
def test_no_record_costs_more_than_the_claim_and_one_costs_it(name, looser):
    amount, bins = SMALL[name]
    tables = [
        fn.table("bins", margin=3 / looser),
        *([fn.table("bins", sum="amount", margin=7 * looser)] if name != "at the ends" else []),
        fn.table(sum="amount", margin=5),
        *([fn.table(count="amount", margin=2)] if amount.missing else []),
    ]
    plan = fn.plan(workload(amount, bins, *tables))
    domain, strategy = plan.publication.domain.axes, plan.table_part.strategy
    assert [*domain.joint] == ["bins × amount"]
    assert strategy.structure.steps == (("bins × amount", domain.steps["bins × amount"]),)
    profile, last = strategy.profile(), sum(domain.steps["amount"])
    claim, costs = strategy.cost_squared(plan.publication.unit.neighbours), {}
    texts = ["N", "-9", " 3 "] if name == "missing" else []
    for x in [*numbers(bins, amount), *texts]:
        cell = domain.cells({"x": x})
        costs[cell["bins"], cell["amount"]] = distance(strategy, domain, [x])
    assert max(costs.values()) <= claim == max(profile)
    listed = dict(zip(domain.joint["bins × amount"].cells, profile, strict=True))
    achieved = {cell: cost for cell, cost in costs.items() if cell in listed}
    assert all(cost == listed[cell] for cell, cost in achieved.items())
    for (b, j), cost in costs.items():
        ends = [listed[b, k] for c, k in listed if c == b and k <= last]
        assert cost <= (max(ends) if j <= last else listed[b, j])


def test_no_two_records_of_a_unit_cost_more_than_the_claim():
    amount, bins = SMALL["ceilings"]
    for options in ({}, {"once_per": ["bins"]}, {"separation": {"bins": 2}}, {"fixed": ["bins"]}):
        unit = fn.PrivacyUnit("person", 2, **options)
        plan = fn.plan(workload(amount, bins), unit=unit)
        domain, strategy = plan.publication.domain.axes, plan.table_part.strategy
        assert [*domain.joint] == ["bins × amount"]
        claim = strategy.unit_cost(domain.adjacency(plan.publication.source, unit))
        worst = 0
        for x, y in itertools.combinations_with_replacement(range(13), 2):
            away = abs(bins.cell(x) - bins.cell(y))
            fits = {"once_per": away > 0, "separation": away > 1, "fixed": away == 0}
            if all(fits[rule] for rule in options):
                worst = max(worst, distance(strategy, domain, [x, y]))
        assert 0 < worst <= claim


def test_replaced_records_cost_no_more_than_the_claim():
    amount, bins = SMALL["between steps"]
    unit = fn.PrivacyUnit(neighbours=fn.Neighbours.REPLACE_ONE)
    public = fn.KnownTotals((), "Register", "these data")
    plan = fn.plan(workload(amount, bins), unit=unit, source=DataSource("x"), public=public)
    domain, strategy = plan.publication.domain.axes, plan.table_part.strategy
    claim, scales = strategy.cost_squared(unit.neighbours), np.repeat(strategy.scales, strategy.portions).tolist()
    exact = [np.concatenate([*strategy.exact_answers(Counted(domain, [x]), None, 9)]) for x in range(-5, 10)]
    shifted = (zip((x - y).tolist(), scales, strict=True) for x in exact for y in exact)
    assert 0 < max(sum(Fraction(d) ** 2 / Fraction(s) ** 2 for d, s in pairs) for pairs in shifted) <= claim


# --- counting -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SMALL)
def test_engines_agree_on_the_cells_of_cuts_and_the_steps_of_amounts(name, tmp_path):
    amount, bins = SMALL[name]
    domain = fn.Domain(bins=bins, amount=amount).axes
    values = [x for x in numbers(bins, amount) if None not in domain.cells({"x": x}).values()]
    texts = [repr(x) for x in values] + (["N", " 3 ", "-9", ""] if name == "missing" else [])
    pd.DataFrame({"x": texts}).to_csv(tmp_path / "x.csv", index=False)
    with sqlite3.connect(tmp_path / "x.sqlite") as connection:
        connection.execute("CREATE TABLE t (x REAL)")
        connection.executemany("INSERT INTO t VALUES (?)", [(x,) for x in values])
    pd.DataFrame({"x": values}).to_parquet(tmp_path / "x.parquet")
    typed = [pd.DataFrame({"x": values}), tmp_path / "x.parquet", f"sqlite:///{tmp_path}/x.sqlite"]
    for source, read in [(tmp_path / "x.csv", texts), *((x, values) for x in typed)]:
        cells = [domain.cells({"x": x}) for x in read]
        expected = np.zeros([domain.sizes[a] for a in domain], dtype=np.int64)
        steps = [domain.steps.get(a, ()) for a in domain]
        sum_up(expected, [np.array([c[a] for c in cells]) for a in domain], steps, np.ones(len(read), dtype=np.int64))
        counter = open_counter(source, domain, DataSource("x", table="t" if "sqlite" in str(source) else None))
        assert (counter.count([("bins", "amount")])["bins", "amount"] == expected).all()


def test_released_sums_and_counts_agree(rng):
    income = fn.Amount(0, 200_000, step=100, ceilings=[30_000], missing={"unknown": [-9]}, column="income")
    sexes = fn.Categorical(["f", "m"])
    tables = [
        fn.table("bins", "sex", margin=2),
        fn.table("bins", sum="amount", margin=1e4),
        fn.table("sex", sum="amount", ceiling=30_000, margin=1e4),
        fn.table("sex", mean="amount", margin=50, reference=500),
        fn.table(cumulative="bins", margin=3),
        fn.table(average={"bins": 2}, margin=3),
    ]
    plan = fn.plan(workload(income, BRACKETS, *tables, sex=sexes))
    frame = pd.DataFrame({"income": rng.lognormal(10, 1, 1000).round(2), "sex": rng.choice(["f", "m"], 1000)})
    frame.loc[:20, "income"] = -9
    release = released(plan, frame)
    valid = frame["income"].where(frame["income"] >= 0)
    steps = (valid.clip(0, 200_000) / 100 + 0.5).apply(np.floor) * 100
    brackets = np.searchsorted(BRACKETS.cuts, frame["income"], side="right")
    truth = steps.groupby(brackets).sum().to_numpy()
    estimate = release["bins by amount sum"]
    assert (abs(estimate["value"] - truth) < 5 * estimate["std_error"]).all()
    total = release.total("amount")
    assert total.value == pytest.approx(estimate["value"].sum(), rel=1e-9)
    assert abs(total.value - steps.sum()) < 5 * total.std_error
    up_to = release["sex by amount sum up to 30000"]
    truth = steps.clip(upper=30_000).groupby(frame["sex"]).sum().to_numpy()
    assert (abs(up_to["value"] - truth) < 5 * up_to["std_error"]).all()
    assert fn.Plan.from_json(plan.to_json()).hash == plan.hash
    counts = np.bincount(brackets, minlength=4)
    displayed = release["bins by sex"].groupby("bins", sort=False)["value"].sum().to_numpy()
    assert (abs(displayed - counts) < 10).all()


# --- not planned jointly --------------------------------------------------------------------------------


def test_added_up_amounts_are_never_planned_within_cuts():
    """With sd 0.3, the example would be charged 11.11, and two merged records can cost 14.79 or 20.07."""
    tables = [fn.table("bins", variance=1), fn.table(sum="amount", std_error=0.3 * 200_000)]
    few = workload(replace(INCOME, column="income"), BRACKETS, *tables)
    merged = fn.PrivacyUnit("person", id="id", sum_within_unit=["amount"])
    plan = fn.plan(few, unit=merged)
    assert joint(plan.publication) == {}
    assert 2 * plan.rho == pytest.approx(11.680, abs=5e-4)
    single = fn.plan(few, unit=fn.PrivacyUnit("person", id="id"))
    assert joint(single.publication) == {("bins", "amount"): STEPS}
    strategy, axes = single.table_part.strategy, single.publication.domain.axes
    # What is added up to 200,000 from amounts of the third or the first cell costs more than the claim.
    rows = np.concatenate([np.asarray(x.rows, dtype=float) / x.scale for x in strategy.sectors])
    x = dict(zip(axes.joint["bins × amount"].cells, rows.T, strict=True))
    lines = [(x[2, 500], x[2, 1000] - x[2, 500], 3), (x[0, 0], x[0, 100] - x[0, 0], 20)]
    assert min(float(((start + rise * times) ** 2).sum()) for start, rise, times in lines) > 14 > 2 * single.rho
    with refused("plan.sum-within-unit-and-cuts"):
        replace(single.order, unit=merged)
    document = json.loads(single.to_json())
    document["spec"]["privacy"]["sum_within_unit"] = ["amount"]
    text = json.dumps(document, separators=(",", ":"), ensure_ascii=False) + "\n"
    with pytest.raises(FitnoiseError):
        fn.Plan.from_json(text)
    with pytest.raises(Exception, match="added up"):
        [*check(text.encode())]


def test_amounts_with_ranges_by_class_are_not_planned_within_cuts():
    by_class = fn.Amount(0, fn.ByAttribute("size", {"s": 10, "l": 100}), step=1, column="x")
    bins = fn.Binned([5, 50], column="x")
    tables = [fn.table("bins", margin=3), fn.table("size", sum="amount", margin=fn.ByAttribute("size", [3, 30]))]
    plan = fn.plan(workload(by_class, bins, *tables, size=fn.Categorical(["s", "l"])))
    assert joint(plan.publication) == {}
    assert cells_with_amount(bins.axis, by_class.axis) == ()


@pytest.mark.parametrize(
    ("amount", "bins", "tables"),
    [
        (fn.Amount(0, 9, column="y"), fn.Binned([5], column="x"), []),  # two columns
        (fn.Amount(0, 9, column="x"), fn.Ordered(0, 9, column="x"), []),  # no cuts
        (fn.Amount(1, 2, column="x"), fn.Binned([1.5], column="x"), []),  # one step in each cell
        (fn.Amount(0, 9, column="x"), fn.Binned([0], column="x"),
         [fn.table("bins", margin=3), fn.table("bins", sum="amount", margin=9)]),  # a sum that is always 0
        (fn.Amount(0, 9, column="x"), fn.Binned([5], column="x"), [fn.table(sum="amount", margin=9)]),
        (fn.Amount(0, 9, column="x"), fn.Binned([5], column="x"), [fn.table("bins", margin=9)]),
    ],
)  # fmt: skip
def test_other_attributes_stay_free_of_an_amount(amount, bins, tables):
    plan = fn.plan(workload(amount, bins, *tables))
    assert joint(plan.publication) == {}
    assert json.loads(plan.to_json()).get("joint_axes") is None


def test_an_amount_goes_with_the_first_cuts_that_are_free_of_others():
    amount, (a, b) = fn.Amount(0, 40, column="x"), (fn.Binned([10, 20], column="x"), fn.Binned([15, 25], column="x"))
    domain = fn.Domain(a=a, b=b, c=fn.Binned([5], column="y"), amount=amount, other=fn.Amount(0, 9, column="y"))
    tables = [fn.table(x, margin=9) for x in "abc"] + [fn.table(sum=x, margin=90) for x in ("amount", "other")]
    plan = fn.plan(fn.Workload(domain, tables))
    assert [*joint(plan.publication)] == [("a", "b"), ("c", "other")]


def axes_of(amount=INCOME, bins=BRACKETS, **options):
    return {"bins": replace(bins, column="x", **options).axis, "amount": replace(amount, column="x").axis}


@pytest.mark.parametrize(
    "one",
    [
        JointAxis(("bins", "amount"), STEPS[:-1]),
        JointAxis(("bins", "amount"), (*STEPS[:-1], (3, 1999))),
        JointAxis(("bins", "amount"), ((0, 0), (0, 1))),
        JointAxis(("bins", "amount"), ((False, 0), *STEPS[1:])),
        JointAxis(("bins", "amount"), ((0, 0.0), *STEPS[1:])),
        JointAxis(("amount", "bins"), STEPS),
        JointAxis(("bins", "amount", "nobody"), STEPS),
        JointAxis(("bins", "amount"), ()),
        JointAxis(("bins", "bins"), ()),
    ],
)
def test_the_kernel_accepts_no_other_steps(one):
    assert AxisDomain(axes_of(), [JointAxis(("bins", "amount"), STEPS)]).sizes["bins × amount"] == 8
    with refused("domain.joint-axis-invalid"):
        AxisDomain(axes_of(), [one])


def test_the_kernel_accepts_no_rule_about_amounts_and_no_other_column():
    one = JointAxis(("bins", "amount"), STEPS)
    with refused("domain.joint-axis-invalid"):
        AxisDomain(axes_of(), rules={"rule": one})
    with refused("domain.joint-axis-invalid"):
        AxisDomain(axes_of() | {"amount": replace(INCOME, column="y").axis}, [one])


@pytest.mark.parametrize(
    "document",
    [
        {"type": "binned", "cuts": [3, 7], "column": "x", "date_part": "year"},
        {"type": "ordered", "low": 0, "high": 2, "cuts": [3, 7], "column": "x"},
    ],
)
def test_the_checker_accepts_no_cuts_of_other_numbers(document):
    plan = json.loads(fn.plan(workload(*SMALL["plain"])).to_json())
    plan["spec"]["domain"]["bins"] = document
    text = json.dumps(plan, separators=(",", ":"), ensure_ascii=False) + "\n"
    with pytest.raises(Exception, match="no cuts of the same numbers"):
        [*check(text.encode())]


def test_the_checker_reads_the_bound_of_the_largest_number_of_steps():
    amount = fn.Amount(0, 2**30, ceilings=[2**29 - 1, 2**29 + 2**28 + 7], column="x")
    bins = fn.Binned([2.0**28 + 0.5, 2.0**29], column="x")
    tables = [
        fn.table("bins", margin=3),
        fn.table(sum="amount", margin=2.0**28),
        fn.table(sum="amount", ceiling=2**29 - 1, margin=2.0**28),
        fn.table(mean="amount", margin=2.0**20, reference=1000),
    ]
    sentences = [*check(fn.plan(workload(amount, bins, *tables)).to_json().encode())]
    assert any("bound as stated" in x for x in sentences)


# --- several releases -----------------------------------------------------------------------------------


def test_releases_that_count_amounts_within_cuts_are_combined_with_all_others():
    both = [fn.table("bins", variance=4), fn.table(sum="amount", std_error=2e5)]
    few = workload(replace(INCOME, column="income"), BRACKETS, *both)
    sums = workload(replace(INCOME, column="income"), BRACKETS, fn.table(sum="amount", std_error=3e5))
    bins = workload(replace(INCOME, column="income"), BRACKETS, fn.table("bins", variance=9))
    plans = [fn.plan(few), fn.plan(sums), fn.plan(bins), fn.plan(few, privacy="pure")]
    releases = [answered(plan, number) for number, plan in enumerate(plans)]
    errors = [release.total("amount").std_error for release in releases if "amount sum" in release]
    assert len(errors) == 3
    position = {0: 0, 1: 1, 3: 2}
    for others in ([1], [2], [3], [1, 2, 3]):
        combined = fn.combine(*(releases[i] for i in (0, *others)), same_records=True)
        expected = sum(1 / errors[position[i]] ** 2 for i in (0, *others) if i in position) ** -0.5
        assert combined.total("amount").std_error <= expected * (1 + 1e-6)


def test_rules_after_the_release_hold_for_amounts_within_cuts():
    sexes = fn.Categorical(["f", "m"])
    tables = [fn.table("bins", "sex", margin=9), fn.table("sex", sum="amount", margin=1e6)]
    plan = fn.plan(workload(replace(INCOME, column="income"), BRACKETS, *tables, sex=sexes))
    frame = pd.DataFrame({"income": [5e3] * 500 + [2e4] * 700, "sex": ["f"] * 500 + ["m"] * 700})
    possible = fn.given(released(plan, frame), [{"bins": ["under 10000"], "sex": ["m"]}])
    assert possible["bins by sex"]["value"].tolist()[1] == 0
    assert possible.total("amount").value == pytest.approx(16.5e6, abs=2e6)
    assert fn.make_integer_tables(released(plan, frame), tables=["bins by sex"], simulations=2)
