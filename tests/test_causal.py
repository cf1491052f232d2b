"""Series, from the specification to the reader: what is planned costs no more, and what was released never changes."""

import itertools
import json
import os
import re
import shutil
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import fitnoise as fn
from fitnoise.errors import DataError, LedgerError, ReleaseError
from fitnoise.interfaces.cli import main
from fitnoise.interfaces.pages.report import page
from fitnoise.interfaces.render import document, lines
from fitnoise.interfaces.reports.ledgers import ledger_report
from fitnoise.interfaces.reports.plans import plan_report
from fitnoise.interfaces.reports.releases import periods_report, release_report
from fitnoise.mechanisms.gaussian.series import refuse_out_of_time
from fitnoise.messages import english, translator
from fitnoise.planning.plan import Plan
from fitnoise.reading import estimates
from fitnoise.reading.description import between_draws
from fitnoise.reading.expressions import ask
from fitnoise.reading.layouts import layout
from fitnoise.reading.registry import registry_record
from fitnoise.request.documents import Spec
from fitnoise.request.publication import Publication
from laws.reports import check_report, in_words
from refused import refused

pytestmark = pytest.mark.usefixtures("one_duckdb")

MONTHS = ["2026-01", "2026-02", "2026-03"]

DOMAIN = fn.Domain(region=fn.Categorical(["a", "b"]), month=fn.Categorical(MONTHS, column="when"), age=fn.Ordered(0, 2))

ORDERED = fn.Domain(region=fn.Categorical(["a", "b"]), month=fn.Ordered(1, 3))

UNIT = fn.PrivacyUnit("person", 3, once_per=["month"])

TABLES = [
    fn.table("month", "region", margin=30),
    fn.table("month", margin=35),
    fn.table("region", "month", cumulative="age", margin=60),
]

TO_DATE = [fn.table("month", "region", margin=30), fn.table("region", cumulative="month", margin=90)]


@cache
def plan(domain=DOMAIN, *, series="month", unit=UNIT):
    tables = TABLES if domain is DOMAIN else TO_DATE
    return fn.plan(fn.Workload(domain, tables), unit=unit, series=series)


def records(months=(1, 2, 3), seed=1):
    rng = np.random.default_rng(seed)
    n = 300
    frame = pd.DataFrame(
        {
            "region": rng.choice(["a", "b"], n),
            "when": rng.choice(MONTHS, n),
            "month": rng.integers(1, 4, n),
            "age": rng.integers(0, 3, n),
        }
    )
    return frame[frame["when"].isin([MONTHS[m - 1] for m in months])]


def ways(folder):
    return {"ledger": folder / "ledger.db", "series": folder / "state"}


def release_period(folder, t, **options):
    """A period, of the data of its month."""
    return fn.release(plan(), records([t]), period=MONTHS[t - 1], **ways(folder), **options)


def released(folder, upto):
    return [release_period(folder, t, directory=folder / str(t)) for t in range(1, upto + 1)]


@pytest.fixture(scope="module")
def year(tmp_path_factory):
    folder = tmp_path_factory.mktemp("year")
    return folder, released(folder, 3)


STAYS = "between the draws of a series every record stays in its cells and counts in one period"
ONE_ID = "one id stands for one unit in all draws of a series"
ASSUMED = {
    "records": (fn.PrivacyUnit(), STAYS),
    "persons": (UNIT, STAYS),
    "persons by an id": (replace(UNIT, id="pid"), ONE_ID),
}


@pytest.mark.parametrize("name", ASSUMED)
def test_assumptions_between_the_draws_are_stated_with_every_guarantee(name, tmp_path):
    """Reports state it for every unit, also a record, in both languages, and not for plans released at once."""
    unit, assumed = ASSUMED[name]
    assumption = f"assumed, not checked: {assumed}"
    series_plan = plan(unit=unit)
    once = plan(unit=unit, series=None)
    units = document(plan_report(series_plan))["records_of_units"]
    assert assumption == english(between_draws(unit)) == units[-1]
    assert (units.count(assumption), "of a series" in json.dumps(document(plan_report(once)))) == (1, False)
    assert any(line.endswith(assumption) for line in lines(plan_report(series_plan)))
    data = records([1]).assign(pid=range(len(records([1]))))
    release = fn.release(series_plan, data, period=MONTHS[0], directory=tmp_path / "1", **ways(tmp_path))
    charge = json.loads((tmp_path / "1" / "release.json").read_text(encoding="utf-8"))["charge"]
    assert in_words(charge["records"])[-1] == assumption
    assert f"{assumption[0].upper()}{assumption[1:]}" in json.dumps(registry_record(release))
    assert assumption in " ".join(lines(release_report(release)))
    page_in_english, german = (page(release, language=language) for language in ("en", "de"))
    assert "from draw to draw" in page_in_english
    assert ". The publisher states this; fitnoise does not check it." in page_in_english
    assert "von Ziehung zu Ziehung" in german
    assert "from draw to draw" not in page(once)
    with fn.Ledger(tmp_path / "ledger.db") as ledger:
        ledger.charge(fn.Account("other", fn.PrivacyUnit()), plan(series=None).loss, {})
        report = ledger_report(ledger.entries(), (), ledger.head())
    assert document(report)["series"] == [{"entries": [1], "assumption": assumption}]
    assert "entry 1" in " ".join(lines(report))
    assert any(line.endswith(assumption) for line in lines(report))
    in_german = " ".join(lines(report, language=translator("de")))
    assert "Buchung 1" in in_german
    assert "zugesagt, nicht geprüft" in in_german
    check_report(report)


# --- plans ----------------------------------------------------------------------------------------------


def test_order_of_time_costs_nothing():
    """Tables released at once and period by period have the same price, to the bits of the integers."""
    free = fn.plan(fn.Workload(ORDERED, TO_DATE), unit=UNIT)
    timed = plan(ORDERED)
    assert float(timed.table_part.exact_cost) == pytest.approx(float(free.table_part.exact_cost), rel=1e-5)
    assert timed.bound == pytest.approx(free.bound, rel=1e-6)
    assert (timed.table_part.variances <= timed.table_part.decomposition.variances).all()


@pytest.mark.parametrize("domain", [DOMAIN, ORDERED], ids=["labels", "ordered"])
def test_what_is_known_of_a_period_never_gets_better_nor_worse(domain):
    """The covariance of the rows of some periods is that which the complete strategy gives these numbers."""
    full = plan(domain)
    for t in (1, 2, 3):
        part = full.truncate(t)
        assert (part.hash, part.loss.rho, part.to_json()) == (full.hash, full.loss.rho, full.to_json())
        assert part.periods == full.periods[:t]
        assert (part == full) is (t == 3)
        assert part.table_part.complete is full.table_part
        assert part.table_part.certificate == full.table_part.certificate
        for name in full.publication.workload.tables.names:
            axis = full.publication.workload[name].attributes.index("month")
            truncated = np.take(full.group(name).table_variances(name), range(t), axis)
            np.testing.assert_allclose(part.group(name).table_variances(name), truncated, rtol=1e-9)
        assert [s.price for s in part.summaries] == pytest.approx([s.price for s in full.summaries])
        assert (part.table_part.relaxation, part.table_part.separate_rho) == (
            full.table_part.relaxation,
            full.table_part.separate_rho,
        )
        assert (part.table_part.objective_value, part.table_part.unbiased_bound) == (
            full.table_part.objective_value,
            full.table_part.unbiased_bound,
        )


def test_a_plan_of_a_series_is_read_as_it_was_written():
    parsed = Plan.from_json(plan().to_json())
    assert (parsed.hash, parsed.periods, parsed.publication.series) == (plan().hash, tuple(MONTHS), "month")
    assert '"series":{"attribute":"month"}' in plan().to_json()


def test_a_plan_out_of_time_is_refused():
    part = plan(ORDERED).table_part
    (head, *others) = part.strategy.groups
    swapped = replace(head, basis=head.basis[::-1])
    mixed = replace(head, mixing=head.mixing.transpose(0, 2, 1))
    for wrong in (swapped, mixed):
        strategy = replace(part.strategy, groups=(wrong, *others))
        with refused("plan.series-out-of-order"):
            Plan.from_parts(plan(ORDERED).publication, [replace(part, strategy=strategy)])
    with refused("plan.series-without-sectors"):
        refuse_out_of_time(replace(part, mechanism=replace(part.mechanism, name="another")))
    free = fn.plan(fn.Workload(ORDERED, TO_DATE), unit=UNIT).to_json()
    with refused("plan.series-out-of-order"):
        Plan.from_json(free.replace('"domain":', '"series":{"attribute":"month"},"domain":', 1))


@pytest.mark.parametrize("periods", [0, 4])
def test_a_series_has_as_many_periods_as_it_has(periods):
    with refused("plan.period-out-of-range"):
        plan().truncate(periods)
    with refused("plan.period-out-of-range"):
        plan().truncate(1).truncate(1)


SPEC = """
title = "visits"
[privacy]
unit = "person"
max_records = 3
once_per = ["month"]
[series]
attribute = "month"
[domain.region]
type = "categorical"
codes = ["a", "b"]
[domain.month]
type = "categorical"
codes = ["2026-01", "2026-02", "2026-03"]
column = "when"
[[tables]]
attributes = ["month", "region"]
margin = 30
"""


def test_a_specification_says_which_attribute_is_the_period():
    publication = Spec.from_toml(SPEC).publication()
    assert publication.series == "month"
    assert Spec.from_publication(publication).publication() == publication
    assert Spec.from_toml(Spec.from_toml(SPEC).to_toml()).publication() == publication


def asking(*tables, domain=DOMAIN, **options):
    options = {"unit": fn.PrivacyUnit(), "series": "month"} | options
    return Publication(fn.Workload(domain, tables or TABLES), **options)


@pytest.mark.parametrize(
    ("build", "code"),
    [
        (lambda: asking(series="nothing"), "spec.series-attribute-unusable"),
        (
            lambda: asking(
                fn.table("month", margin=3), domain=fn.Domain(month=fn.Ordered(1, 3, missing={"unknown": [9]}))
            ),
            "spec.series-attribute-unusable",
        ),
        (
            lambda: asking(fn.table("month", margin=3), domain=fn.Domain(month=fn.Binned([1, 2]))),
            "spec.series-attribute-unusable",
        ),
        (
            lambda: asking(further_tables=(Publication(fn.Workload(DOMAIN, [fn.table("age", margin=3)])),)),
            "spec.series-unsupported",
        ),
        (lambda: asking(composed_with=("a" * 64,)), "spec.series-unsupported"),
        (lambda: asking(objective=fn.Objective("total-error")), "spec.series-unsupported"),
        (lambda: asking(privacy="pure"), "spec.series-unsupported"),
        (lambda: asking(unit=fn.PrivacyUnit(neighbours=fn.Neighbours.REPLACE_ONE)), "spec.series-unsupported"),
        (lambda: asking(cell_budgets=fn.CellBudgets(("region",), (1.0, 0.5))), "spec.series-unsupported"),
        (
            lambda: asking(small_database=fn.SmallDatabase(9), budget=fn.Budget(epsilon=1.0, delta=1e-6)),
            "spec.series-unsupported",
        ),
        (
            lambda: asking(
                fn.table("month", sum="wage", std_error=9),
                domain=fn.Domain(month=fn.Ordered(1, 3), wage=fn.Amount(0, 10, step=1)),
            ),
            "spec.series-unsupported",
        ),
        (lambda: asking(fn.table("region", margin=3)), "spec.series-table-without-periods"),
        (lambda: asking(*[fn.all_tables(1, ["region", "month"], margin=3)]), "spec.series-table-without-periods"),
        (
            lambda: asking(fn.table("month", groups={"month": {"x": MONTHS[:2]}}, margin=3)),
            "spec.series-view-unsupported",
        ),
        (lambda: asking(fn.table("month", margin=fn.ByAttribute("month", [1, 2, 3]))), "spec.series-target-varies"),
        (lambda: asking(fn.table("month", max_deviation=9)), "spec.series-target-varies"),
    ],
)
def test_what_is_not_released_period_by_period_is_refused(build, code):
    with refused(code):
        build()


RELATIVE = [
    fn.table("month", "region", margin=30),
    fn.table("region", change="month", margin=25),
    fn.table("region", average={"month": 2}, margin=20),
    fn.table("region", change={"month": 2}, margin=25),
    fn.table("month", cumulative="age", margin=90),
    fn.table(to_date={"month": 2}, cumulative="age", margin=90),
]


def test_changes_averages_and_seasons_are_released_when_their_periods_are_and_never_revised(tmp_path):
    """They are released with the last of their periods, and have the numbers and errors of these periods."""
    relative = fn.plan(fn.Workload(DOMAIN, RELATIVE), unit=UNIT, series="month")
    free = fn.plan(fn.Workload(DOMAIN, RELATIVE), unit=UNIT)
    assert float(relative.table_part.exact_cost) == pytest.approx(float(free.table_part.exact_cost), rel=1e-5)
    assert (relative.table_part.variances <= relative.table_part.decomposition.variances).all()
    names, before = relative.publication.workload.tables.names, {}
    for t, late in ((1, {1, 2, 3}), (2, {3}), (3, set())):
        tables = fn.release(relative, records([t]), period=MONTHS[t - 1], directory=tmp_path / str(t), **ways(tmp_path))
        assert list(tables) == [name for i, name in enumerate(names) if i not in late]
        with fn.Ledger(tmp_path / "ledger.db") as ledger:
            assert fn.verify(tmp_path / str(t), ledger=ledger).ok
        for name, frame in before.items():
            merged = frame.merge(tables[name], on=[x for x in ("month", "region", "age") if x in frame])
            assert len(merged) == len(frame)
            np.testing.assert_allclose(merged["value_x"], merged["value_y"], atol=1e-6)
            np.testing.assert_allclose(merged["moe_x"], merged["moe_y"], rtol=1e-6)
        before = {name: tables[name] for name in tables}
    numbers = tables.count(by=["region", "month"])
    for name, steps in zip(names[1:4], (("change", 1), ("average", 2), ("change", 2)), strict=True):
        same = getattr(numbers, steps[0])("month", steps[1]).frame()
        for column in ("value", "moe"):
            np.testing.assert_allclose(tables[name][column], same[column], rtol=1e-6, atol=1e-6)
    with refused("release.integer-table-of-changes"):
        fn.make_integer_tables(tables)


@pytest.mark.parametrize("further", [[], [fn.table("month", margin=99)]], ids=["alone", "with totals"])
def test_a_series_of_nothing_but_changes_is_refused(further):
    """Estimates of a period are never revised, and changes alone do not determine the first period."""
    tables = [*further, fn.table("region", change="month", margin=30)]
    with refused("plan.period-not-determined"):
        fn.plan(fn.Workload(DOMAIN, tables), unit=UNIT, series="month")


def test_an_id_that_would_need_a_memory_is_refused_when_it_is_planned():
    with refused("plan.series-bound-across-periods"):
        plan(unit=fn.PrivacyUnit("person", 2, id="who", once_per=["month"]))


# --- releases -------------------------------------------------------------------------------------------


def test_each_period_is_a_release_of_all_until_then_and_none_changes_a_value(year):
    folder, releases = year
    for t, one in enumerate(releases, 1):
        read = fn.Release.read(folder / str(t))
        assert read == one
        assert read["month"]["month"].tolist() == MONTHS[:t]
        for later in releases[t:]:
            for name in one:
                mine, theirs = one[name], later[name]
                theirs = theirs[theirs["month"].isin(MONTHS[:t])].reset_index(drop=True)
                np.testing.assert_allclose(mine["value"], theirs["value"], atol=1e-9 * mine["std_error"].max())
                np.testing.assert_allclose(mine["std_error"], theirs["std_error"], rtol=1e-9)


def test_values_are_those_of_the_records_of_their_periods(tmp_path, without_noise):
    last = released(tmp_path, 3)[-1]
    frame = records()
    for (month, region), here in frame.groupby(["when", "region"]):
        numbers = last["month by region"]
        value = numbers[(numbers["month"] == month) & (numbers["region"] == region)]["value"].item()
        assert value == pytest.approx(len(here), abs=1e-6)


def test_a_series_is_verified_with_its_ledger(year, tmp_path):
    folder, _ = year
    with fn.Ledger(folder / "ledger.db") as ledger:
        for t in (1, 2, 3):
            report = fn.verify(folder / str(t), ledger=ledger)
            assert report.ok, [c for c in report.checks if not c.holds]
            findings = {english(c.claim): english(c.finding) for c in report.checks}
            assert findings["release.json says how far the series goes"] == f"{t} of 3 periods"
            assert "entry 1 charged all periods" in findings["the ledger says that it was charged"]
        other = tmp_path / "other"
        shutil.copytree(folder / "2", other)
        text = (other / "release.json").read_text()
        for wrong in ('"drawn": 3', '"drawn": 0', '"drawn": "2"'):
            (other / "release.json").write_text(text.replace('"drawn": 2', wrong))
            assert not fn.verify(other).ok
        (other / "release.json").write_text(text)
        entry = ledger.entries()[0]
        lied = text.replace('"sequence": 3', '"sequence": 1').replace(ledger.entries()[2].digest, entry.digest)
        (other / "release.json").write_text(lied)
        failed = [c for c in fn.verify(other, ledger=ledger).checks if not c.holds]
        assert [english(c.finding) for c in failed] == [
            "entry 1 of the ledger does not say that period 2026-02 was drawn"
        ]
    with fn.Ledger(tmp_path / "empty.db") as empty:
        failed = [c for c in fn.verify(folder / "1", ledger=empty).checks if not c.holds]
        assert "the ledger has 0" in english(failed[0].finding)


def test_a_release_says_whether_it_is_of_a_series(year, tmp_path):
    shutil.copytree(year[0] / "1", tmp_path / "one")
    text = (tmp_path / "one" / "release.json").read_text()
    cut = re.sub(r' "series": \{.*?\},\n', "", text, count=1, flags=re.DOTALL)
    (tmp_path / "one" / "release.json").write_text(cut)
    with refused("release.series-disagrees"):
        fn.Release.read(tmp_path / "one")


def test_the_record_for_a_registry_says_which_release_of_how_many_it_is(year):
    deployments = [registry_record(release)["deployment"] for release in year[1][:2]]
    assert [x["deployment_model"]["release_type"] for x in deployments] == [
        "A series of 3 releases by month, here until 2026-01",
        "A series of 3 releases by month, here until 2026-02",
    ]
    assert "charged at the first of them" in deployments[1]["accounting"]["composition"]
    assert deployments[1]["deployment_model"]["data_source_type"] == "Dynamic"


def test_changes_and_averages_of_the_last_release_use_their_covariance(year):
    last = year[1][-1]
    change = last.count(month="2026-03", by="region") - last.count(month="2026-02", by="region")
    values = last["month by region"].pivot_table("value", "region", "month")
    np.testing.assert_allclose(change.frame()["value"], values["2026-03"] - values["2026-02"], atol=1e-6)
    tensor = np.zeros((3, 2))
    tensor[2, 0], tensor[1, 0] = 1, -1
    assert change.frame()["std_error"][0] == pytest.approx(last.estimate({"month by region": tensor}).std_error)


def test_a_report_shows_the_series_with_its_bands(year):
    """A line with its band for each region, along the months, from the third on; and says what will not change."""
    _, second, third = year[1]
    text = page(third)
    assert "3 of 3 periods so far, up to 2026-03" in text
    assert text.count('<polyline class="line') == 2 + 1  # of the third table there are more rows than months
    assert text.count('<polygon class="band') == 3
    assert "<polyline" not in page(second)
    assert "bisher 2 von 3 Zeiträumen, bis 2026-02" in page(second, language="de")
    with_layout = layout(third, "month by region")
    assert [h.periods for h in with_layout.stubs] == [True]
    assert [c.text for c in with_layout.columns] == ["a", "b"]


def test_changes_averages_and_sums_to_date_are_those_of_the_numbers_and_their_covariances(year):
    """The reference is a dense matrix for each, from all covariances of the numbers."""
    counts = year[1][-1].count(by=["region", "month"])
    values, covariance = counts.value.reshape(2, 3), counts.covariance().reshape(2, 3, 2, 3)
    cases = {
        "change": (counts.change("month"), [[-1, 1, 0], [0, -1, 1]]),
        "seasonal": (counts.change("month", 2), [[-1, 0, 1]]),
        "average": (counts.average("month", 2), [[0.5, 0.5, 0], [0, 0.5, 0.5]]),
        "itself": (counts.average("month", 1), np.eye(3)),
        "to date": (counts.to_date("month"), np.tril(np.ones((3, 3)))),
        "in one season": (counts.to_date("month", 12), np.tril(np.ones((3, 3)))),
        "by season": (counts.to_date("month", 2), [[1, 0, 0], [1, 1, 0], [0, 0, 1]]),
    }
    for name, (computed, matrix) in cases.items():
        w = np.array(matrix)
        np.testing.assert_allclose(computed.value, values @ w.T, atol=1e-8, err_msg=name)
        expected = np.einsum("im,rmsn,jn->risj", w, covariance, w).reshape(2 * len(w), 2 * len(w))
        np.testing.assert_allclose(computed.covariance(), expected, atol=1e-9 * expected.max())
        assert computed.frame()["month"].tolist() == 2 * MONTHS[3 - len(w) :]
    growth = counts.average("month", 2) / counts.average("month", 2)
    np.testing.assert_allclose(growth.value, 1)


def test_changes_averages_and_sums_to_date_leave_out_missing_values():
    """They equal those of the numbers without the category, which has no place in the order."""
    month = fn.Ordered(1, 3, missing={"unknown": [], "late": []}, if_missing="unknown", if_outside="late")
    domain = fn.Domain(region=fn.Categorical(["a", "b"]), month=month)
    plan = fn.plan(fn.Workload(domain, [fn.table("region", "month", margin=5)]))
    answers = itertools.count()
    release = fn.Release(plan, [np.array([next(answers) for _ in range(n)]) for n in plan.table_part.strategy.lengths])
    counts = release.count(by=["region", "month"])
    assert counts.labels["month"] == (1, 2, 3, "unknown", "late")
    without = release.count(month=(1, 3), by=["region", "month"])
    for numbers in (counts, counts - 0.5 * counts):
        scale = 1 if numbers is counts else 0.5
        for computed, expected in (
            (numbers.change("month"), without.change("month")),
            (numbers.average("month", 3), without.average("month", 3)),
            (numbers.to_date("month", 2), without.to_date("month", 2)),
        ):
            np.testing.assert_allclose(computed.value, scale * expected.value)
            np.testing.assert_allclose(computed.std_error, scale * expected.std_error)
            assert computed.labels == expected.labels
    with refused("release.wrong-step"):
        release.count(month="late", by="month").to_date("month")


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        (lambda x: x.change("age"), "release.not-broken-down-by"),
        (lambda x: x.change(["age"]), "release.wrong-type"),
        (lambda x: x.change("month", 3), "release.wrong-step"),
        (lambda x: x.change("month", 0), "release.wrong-step"),
        (lambda x: x.average("month", True), "release.wrong-step"),
        (lambda x: x.average("month", 4), "release.wrong-step"),
        (lambda x: x.to_date("month", 2.0), "release.wrong-step"),
        (lambda x: x.to_date("month", 0), "release.wrong-step"),
    ],
)
def test_steps_by_an_attribute_without_breakdown_are_refused(year, wrong, code):
    with refused(code):
        wrong(year[1][-1].count(by="month"))


def test_sums_of_more_than_anybody_adds_up_are_refused(year, monkeypatch):
    monkeypatch.setattr(estimates, "MAX_NUMBERS", 8)
    with refused("release.too-many-sums"):
        year[1][-1].count(by="month").to_date("month")


def test_steps_are_computed_from_a_line_of_text(year):
    last = year[1][-1]
    numbers = last.count(by=["month", "region"])
    for text, expected in (
        ('change(count(), "month", 2)', numbers.change("month", 2)),
        ('average(count() - count(), "month", 2)', (numbers - numbers).average("month", 2)),
        ('to_date(count(), "month")', numbers.to_date("month")),
    ):
        assert ask(text, last, by=["month", "region"]).frame().equals(expected.frame())
    ratio = ask('change(count(), "month") / average(count(), "month", 2)', last, by=["month"])
    assert ratio.frame()["month"].tolist() == MONTHS[1:]
    for text, code in (
        ('change(count() / count(), "month")', "release.steps-of-ratio"),
        ('change(1, "month")', "release.steps-of-ratio"),
        ("change(count())", "release.unknown-part-of-expression"),
        ('change(count(), "month", lag=2)', "release.unknown-part-of-expression"),
        ('change(count(), "month", 1, 2)', "release.wrong-arguments-of-steps"),
        ('average(count(), "month")', "release.wrong-arguments-of-steps"),
        ("change(count(), month)", "release.wrong-value-in-expression"),
    ):
        with refused(code):
            ask(text, last, by=["month"])


def test_two_periods_of_one_series_are_no_two_measurements(year):
    one, two, _ = year[1]
    with refused("release.two-periods-of-series"):
        _ = (two.count(month="2026-02") - one.count(month="2026-01")).frame()
    with refused("release.two-periods-of-series"):
        fn.combine(one, two, same_records=True)


def test_a_series_is_released_by_period_and_no_other_plan_is(tmp_path):
    where = {"ledger": tmp_path / "l.db", "directory": tmp_path / "r"}
    for wrong in ({}, {"period": "2026-01"}, {"series": tmp_path}):
        with refused("plan.period-or-folder-missing"):
            fn.release(plan(), records(), **where, **wrong)
    with refused("plan.unknown-period"):
        fn.release(plan(), records(), **where, period="2026-04", series=tmp_path)
    with refused("plan.wrong-type"):
        plan().truncate("2026-01")
    ordinary = fn.plan(fn.Workload(DOMAIN, [fn.table("month", margin=30)]))
    with refused("plan.plan-without-periods"):
        fn.release(ordinary, records(), **where, period="2026-01")
    with refused("plan.plan-without-periods"):
        fn.read_period(ordinary, "2026-01", ledger=tmp_path / "l.db", series=tmp_path)
    with refused("plan.plan-without-periods"):
        fn.list_periods(ordinary, ledger=tmp_path / "l.db", series=tmp_path)
    with refused("ledger.file-missing"):
        fn.list_periods(plan(), ledger=tmp_path / "l.db", series=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_period_that_was_not_written_is_written_from_what_is_kept(tmp_path, monkeypatch):
    """Killed, or out of disk, between the draw and the directory."""
    released(tmp_path, 1)
    monkeypatch.setattr(fn.Release, "_fill", failing(fn.Release._fill))
    with refused("release.disk-full") as caught:
        release_period(tmp_path, 2, directory=tmp_path / "2")
    assert "answers are kept" in caught.value.outcome
    monkeypatch.undo()
    assert not (tmp_path / "2").exists()
    with refused("ledger.period-drawn-before") as caught:
        fn.release(plan(), records([2]), **ways(tmp_path), period="2026-02")
    assert "Period 2026-02" in str(caught.value)
    with refused("ledger.period-not-released"):
        fn.read_period(plan(), "2026-03", **ways(tmp_path))
    read = fn.read_period(plan(), "2026-02", **ways(tmp_path), directory=tmp_path / "2")
    with fn.Ledger(tmp_path / "ledger.db") as ledger:
        assert fn.verify(tmp_path / "2", ledger=ledger).ok
        assert [e.kind for e in ledger.entries()] == ["charge", "answers", "period", "answers"]
    assert fn.Release.read(tmp_path / "2") == read
    assert [p.has_answers for p in fn.list_periods(plan(), **ways(tmp_path))] == [True, True, False]


def test_a_wrong_name_of_the_folder_is_no_loss(tmp_path):
    """A publisher who believed that answers were lost was charged for a second draw."""
    released(tmp_path, 1)
    wrong = {**ways(tmp_path), "series": tmp_path / "stat"}
    for call in (
        lambda: fn.list_periods(plan(), **wrong),
        lambda: fn.read_period(plan(), "2026-01", **wrong),
        lambda: fn.release(plan(), records([2]), **wrong, period="2026-02"),
    ):
        with refused("data.drawn-series-folder-missing"):
            call()


def test_a_folder_of_another_owner_is_refused_in_words(tmp_path, monkeypatch):
    """The user of tests may read everything, so the system that refuses access is simulated."""
    released(tmp_path, 1)
    real = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path).name != "state" and real(path, mode))
    for call in (
        lambda: fn.list_periods(plan(), **ways(tmp_path)),
        lambda: fn.release(plan(), records([2]), **ways(tmp_path), period="2026-02"),
        lambda: fn.release(plan(), records([1]), **ways(tmp_path) | {"ledger": tmp_path / "new.db"}, period="2026-01"),
    ):
        with refused("data.series-folder-not-readable"):
            call()


@pytest.mark.parametrize("what", ["touched", "gone"])
def test_frozen_counts_that_are_not_as_they_were_are_named(tmp_path, what):
    """Also if answers are stored, so that the release is unchanged; no message is about the counts."""
    released(tmp_path, 2)
    (path,) = (tmp_path / "state").glob("0002-*.frozen")
    if what == "gone":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:-1] + b"?")
    periods = fn.list_periods(plan(), **ways(tmp_path))
    assert [(one.has_answers, one.frozen) for one in periods] == [(True, True), (True, False), (False, True)]
    text = english(*periods_report(plan(), periods).sections[0].messages)
    assert "the frozen counts of 2026-02 have changed" in text
    assert "next: " not in text


def test_a_series_that_was_not_begun_is_not_reported_as_charged(tmp_path):
    with fn.Ledger(tmp_path / "ledger.db"):
        pass
    (section,) = periods_report(plan(), fn.list_periods(plan(), **ways(tmp_path))).sections
    assert section.messages[0].id == "report.periods.none"


def failing(real):
    def fill(self, stage, names, *, rehearsal=False):
        if not rehearsal:
            raise ReleaseError("disk-full", "The disk is full.", "", "Free space.", "Nothing was written.")
        real(self, stage, names, rehearsal=rehearsal)

    return fill


def test_lost_answers_are_drawn_again_only_on_request_and_at_a_price(tmp_path):
    released(tmp_path, 2)
    next(iter(sorted((tmp_path / "state").glob("0002*.drawn")))).unlink()
    assert [p.has_answers for p in fn.list_periods(plan(), **ways(tmp_path))] == [True, False, False]
    for call in (
        lambda: fn.read_period(plan(), "2026-02", **ways(tmp_path)),
        lambda: fn.release(plan(), records([3]), **ways(tmp_path), period="2026-03"),
    ):
        with refused("ledger.answers-of-period-lost"):
            call()
    with refused("ledger.period-not-lost"):
        fn.read_period(plan(), "2026-01", **ways(tmp_path), redraw=True)
    price = fn.list_periods(plan(), **ways(tmp_path))[1].price
    with fn.Ledger(tmp_path / "ledger.db") as ledger:
        before, head = ledger.balance(plan().order.account).spent, ledger.head()
        (earlier,) = (tmp_path / "state").glob("0001*.drawn")
        earlier.rename(tmp_path / "lost")
        with refused("ledger.answers-of-period-lost"):
            fn.read_period(plan(), "2026-02", ledger=ledger, series=tmp_path / "state", redraw=True)
        assert ledger.head() == head, "a period was charged, although an earlier one is lost"
        (tmp_path / "lost").rename(earlier)
        fn.read_period(plan(), "2026-02", ledger=ledger, series=tmp_path / "state", redraw=True)
        rise = ledger.balance(plan().order.account).spent - before
    assert float(rise) == pytest.approx(price)
    assert release_period(tmp_path, 3)["month"]["month"].tolist() == MONTHS


def test_data_of_another_domain_are_refused_and_nothing_is_drawn(tmp_path):
    wrong = records([1]).assign(region="c")
    with pytest.raises(DataError):
        fn.release(plan(), wrong, period="2026-01", directory=tmp_path / "1", **ways(tmp_path))
    with fn.Ledger(tmp_path / "ledger.db") as ledger:
        assert ledger.entries() == []
    assert not (tmp_path / "1").exists()
    assert list((tmp_path / "state").iterdir()) == []


# --- the command line -----------------------------------------------------------------------------------


def test_a_series_on_the_command_line(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "spec.toml").write_text(SPEC)
    for t in (1, 2, 3):
        records([t]).to_csv(f"{t}.csv", index=False)
    options = ["--series", "state", "--ledger", "ledger.db"]
    main(["plan", "spec.toml", "-o", "plan.json"])
    line = "series     3 periods of month, from 2026-01 to 2026-03, released one by one\n"
    assert line in capsys.readouterr().out
    main(["release", "plan.json", "1.csv", "--period", "2026-01", *options, "-o", "1"])
    assert "for all periods of the series, with the first\n" in capsys.readouterr().out
    main(["release", "plan.json", "2.csv", "--period", "2026-02", *options, "-o", "2"])
    assert "with the first; this period was charged nothing" in capsys.readouterr().out
    main(["series", "status", "plan.json", *options])
    out = capsys.readouterr().out
    assert "2 of 3 periods were drawn; the first draw was charged for all" in out
    assert "next: 2026-03" in out
    main(["series", "write", "plan.json", "--period", "2026-02", *options, "-o", "again"])
    assert fn.Release.read("again") == fn.Release.read("2")
    main(["verify", "2", "--ledger", "ledger.db"])
    next((tmp_path / "state").glob("0002*.drawn")).unlink()
    capsys.readouterr()
    main(["series", "status", "plan.json", *options, "--json"])
    assert json.loads(capsys.readouterr().out)["lost"] == ["2026-02"]
    with pytest.raises(SystemExit) as end:
        main(["release", "plan.json", "3.csv", "--period", "2026-03", *options, "-o", "3"])
    assert end.value.code == LedgerError.exit_code
    capsys.readouterr()
    main(["series", "write", "plan.json", "--period", "2026-02", *options, "-o", "once more", "--redraw"])
    price = fn.list_periods(Plan.from_json(Path("plan.json").read_text("utf-8")), ledger="ledger.db", series="state")[
        1
    ].price
    assert f"charged rho = {price:.7f}, for drawing 2026-02 once more" in capsys.readouterr().err
