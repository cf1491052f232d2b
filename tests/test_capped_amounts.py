"""Sums and means of capped amounts: what intervals are for, κ, and the warning that a range may cut off much.

The case from practice: incomes capped at 200,000. The report stated intervals for "the true one"; five of six areas
missed it. They hold the mean of the capped incomes, and everything that shows them says so.
"""

import json

import numpy as np
import pandas as pd
import pytest

import fitnoise as fn
from fitnoise.interfaces.exports import latex
from fitnoise.interfaces.pages import report
from fitnoise.interfaces.pages.fragments import caption
from fitnoise.interfaces.render import document, lines
from fitnoise.interfaces.reports.plans import plan_report
from fitnoise.messages import english, translator
from fitnoise.planning import ranges
from fitnoise.reading.layouts import layout
from laws.releases import by_command, released
from laws.reports import in_words

AREAS = ["A", "B", "C", "D", "E", "F"]
HIGH = 200_000
CUT = "values of income count below 0 as 0, above 200000 as 200000; in steps of 100"
NOT_INCLUDED = "no margin or interval includes what the range cuts off"
NOT_INCLUDED_ON_PAGES = "No margin or interval includes the amounts that the range cuts off."


def domain(**options):
    return fn.Domain(area=fn.Categorical(AREAS), income=fn.Amount(0, HIGH, step=100, **options))


def planned(*tables, **options):
    return fn.plan(fn.Workload(domain(**options), tables), gap=1e-2)


MEAN = fn.table("area", mean="income", margin=150, reference=5000)
SUM = fn.table("area", sum="income", margin=5 * HIGH)


@pytest.fixture(scope="module")
def people():
    """5,000 persons an area; one in 50 earns some 400,000."""
    rng = np.random.default_rng(39)
    income = rng.lognormal(10.6, 0.4, 30_000)
    rich = rng.random(30_000) < 0.02
    income[rich] = 400_000 * rng.lognormal(0, 0.1, rich.sum())
    return pd.DataFrame({"area": np.repeat(AREAS, 5000), "income": income})


@pytest.fixture(scope="module")
def release(people):
    return released(planned(MEAN, SUM), people)


def test_intervals_hold_the_mean_of_capped_incomes_and_miss_the_uncapped_one(release, people):
    """The case as it was seen: what intervals are for is right, and their stated purpose is not."""
    table = release["area by income mean"]
    capped, uncapped = people.assign(income=people["income"].clip(0, HIGH)), people
    inside = [
        sum((table["low"] <= true) & (true <= table["high"]))
        for true in (x.groupby("area")["income"].mean().to_numpy() for x in (capped, uncapped))
    ]
    assert inside[0] >= 4  # of 6, at 95 % each: fewer once in 2,000 times
    assert inside[1] == 0


@pytest.mark.parametrize("name", ["area by income mean", "area by income sum"])
def test_everything_that_shows_a_capped_amount_says_what_its_intervals_are_for(release, name, tmp_path, capsys):
    table = layout(release, name)
    for language, amount_rows in {
        "en": f"V{CUT[1:]}. {NOT_INCLUDED_ON_PAGES}",
        "de": "Werte von income zählen unter 0 als 0, über 200000 als 200000; in Schritten von 100. Keine Fehlerspanne "
        "und kein Intervall enthält, was der Bereich von Beträgen abschneidet.",
    }.items():
        assert caption(table, translator(language)).endswith(amount_rows)
        assert amount_rows in report.page(release, language=language)
        assert amount_rows in latex.latex(release, [table], translator(language), None).decode().replace("\n", " ")
    statistic = f"{'mean' if 'mean' in name else 'sum'} of income; {CUT}; {NOT_INCLUDED}"
    assert release[name].attrs["statistic"] == statistic
    assert release[name].attrs["confidence"] == 0.95
    assert dict(release.frames())[name].attrs == release[name].attrs
    folder = release.write(tmp_path / "release")
    tables = {x["name"]: x for x in json.loads((folder / "release.json").read_text("utf-8"))["tables"]}
    assert "; ".join(in_words(tables[name]["statistic"])) == statistic
    package = json.loads((fn.export(release, tmp_path / "package") / "datapackage.json").read_text("utf-8"))
    (resource,) = (x for x in package["resources"] if x["name"] == name.replace(" ", "_"))
    assert f"V{CUT[1:]}. {NOT_INCLUDED_ON_PAGES}" in resource["description"]
    for field in resource["schema"]["fields"]:
        assert "true" not in field.get("description", "")


def test_the_command_line_says_what_intervals_are_for(people, tmp_path, capsys):
    fn.release(planned(MEAN), people, ledger=tmp_path / "l.sqlite", directory=tmp_path / "r")
    by_command("tables", str(tmp_path / "r"), "area by income mean")
    assert f"margins or intervals are for: mean of income; {CUT}; {NOT_INCLUDED}" in capsys.readouterr().err
    by_command("tables", str(tmp_path / "r"), "area by income mean", "--json")
    (table,) = json.loads(capsys.readouterr().out)["tables"]
    assert table["statistic"] == f"mean of income; {CUT}; {NOT_INCLUDED}"
    for question in ('mean("income")', 'total("income")', 'total("income") - total("income", area="A")'):
        by_command("ask", str(tmp_path / "r"), question)
        output = capsys.readouterr().out
        assert "the intervals are for values as they were read; they do not include the bias of the range" in output
    by_command("ask", str(tmp_path / "r"), 'count(area="A") / count()')
    assert "bias of the range" not in capsys.readouterr().out  # no amount is added up


def test_frames_of_estimates_state_what_intervals_are_for(release):
    for estimate in (
        release.mean("income", by="area"),
        release.total("income"),
        release.total("income") / release.count(),
    ):
        attrs = estimate.frame(0.9).attrs
        assert (attrs["confidence"], attrs["universe"]) == (0.9, estimate.universe)
        assert (
            attrs["interval"] == "for the exact number of the records as they were read, without what a range cuts off"
        )


def test_quantiles_say_where_values_were_clipped():
    """Detects a median of clipped ages that does not say that 85 is 85 or more."""
    ages = fn.Domain(age=fn.Ordered(0, 85, clip=True))
    clipped = released(
        fn.plan(fn.Workload(ages, [fn.table(cumulative="age", margin=5)])), pd.DataFrame({"age": [99] * 500})
    )
    median = clipped.quantile("age", 0.5)
    assert median.value == 85
    assert median.universe == "all records (age: below 0 as 0, above 85 as 85)"
    assert median.frame().attrs["universe"] == median.universe


def test_no_text_for_readers_calls_a_capped_or_clipped_value_the_true_one(release):
    """Detects "the true one" and "the truth lies" on pages, in English and in German."""
    sources = (release, fn.combine(release, same_records=True))
    for text in (report.page(x, language=language) for x in sources for language in ("en", "de")):
        for claim in ("the true one", "the truth", "die wahre", "die Wahrheit"):
            assert claim not in text


# --- κ, and statements about a cap without data ----------------------------------------------------------------------


def amount_rows(plan):
    return {row["table"]: row for row in document(plan_report(plan))["amounts"]}


def test_kappa_is_reported_of_sums_means_and_weighted_totals():
    """κ = margin · n / largest; n is 1 for sums, and the reference for means."""
    amounts = fn.Domain(
        area=fn.Categorical(AREAS), income=fn.Amount(0, HIGH, step=100), weight=fn.Amount(0, 50), kids=fn.Ordered(0, 9)
    )
    tables = [
        fn.table("area", mean="income", margin=600, reference=9000),
        fn.table("area", sum=["weight", "income"], margin=20 * 50 * HIGH),
        fn.table("area", sum=["kids", "income"], margin=30 * 9 * HIGH),
        fn.table("area", sum="kids", margin=90),
    ]
    rows = amount_rows(fn.plan(fn.Workload(amounts, tables), gap=1e-2))
    expected = {
        "area by income mean": (HIGH, 27, 9000),
        "area by weight sum by income sum": (50 * HIGH, 20, None),
        "area by kids sum by income sum": (9 * HIGH, 30, None),
        "area by kids sum": (9, 10, None),
    }
    assert rows.keys() == expected.keys()
    for name, (largest, kappa, reference) in expected.items():
        assert (rows[name]["largest"], rows[name]["reference"]) == (largest, reference)
        assert rows[name]["asked_kappa"] == pytest.approx(kappa)
        assert rows[name]["achieved_kappa"] <= kappa * (1 + 1e-6)


def test_kappa_of_a_mean_is_the_number_of_records_that_move_it_by_its_margin():
    """κ records at twice `high` among n lack κ·high in all: of the mean that is its margin, by arithmetic."""
    (kappa,) = ranges.kappas(planned(MEAN))
    lacking = kappa.achieved * HIGH / kappa.reference
    assert lacking == pytest.approx(kappa.summary.achieved_moe)
    assert kappa.fraction == pytest.approx(kappa.summary.achieved_moe / HIGH)


@pytest.mark.parametrize(
    ("table", "warned"),
    [
        (fn.table("area", sum="income", margin=9.9 * HIGH), "9.9 records at twice 200000 behind one number suffice"),
        (fn.table("area", sum="income", margin=10.1 * HIGH), None),
        (fn.table("area", mean="income", margin=190, reference=50_000), "0.09% of its records at twice 200000 suffice"),
        (fn.table("area", mean="income", margin=300, reference=50_000), None),
        (fn.table("area", mean="income", margin=600, reference=3_000), "9 records at twice 200000 behind one number"),
    ],
)
def test_a_plan_warns_if_few_records_outside_the_range_suffice(table, warned):
    """Below κ = 10, or 1 in 1,000 records of a mean: on the screen, in documents, on pages in both languages."""
    plan = planned(table)
    (*_, kappa) = ranges.kappas(plan)
    assert kappa.warned is (warned is not None)
    screen, pages = " ".join(lines(plan_report(plan))), {x: report.page(plan, language=x) for x in ("en", "de")}
    assert ("Warning: the range may cut off more of income than the margin of" in screen) is (warned is not None)
    assert ("Warnung: Der Bereich schneidet von income vielleicht mehr ab" in pages["de"]) is (warned is not None)
    warnings = [line for line in lines(plan_report(plan)) if line.startswith("Warning: the range")]
    assert document(plan_report(plan))["warnings"] == warnings
    assert warned is None or warned in screen


def test_no_warning_if_nothing_is_cut_off_or_ceilings_were_requested():
    """`valid` as the range: numbers beyond are outside. With ceilings the publisher looks at what is cut off."""
    exact = planned(SUM, valid=(0, HIGH))
    assert not any(kappa.warned for kappa in ranges.kappas(exact))
    table = layout(released(exact, pd.DataFrame({"area": ["A"], "income": [100.0]})), "area by income sum")
    (rule,) = table.counted[0]["income"]
    assert (english(rule), table.counted[1]) == ("in steps of 100", False)
    assert NOT_INCLUDED_ON_PAGES not in caption(table, translator("en"))
    assert "Werte von income zählen in Schritten von 100" in caption(table, translator("de"))
    up_to = planned(fn.table("area", sum="income", ceiling=50_000, margin=50_000), ceilings=[50_000])
    assert not any(kappa.warned for kappa in ranges.kappas(up_to))
    counted = fn.Domain(age=fn.Ordered(0, 85))
    assert not any(k.warned for k in ranges.kappas(fn.plan(fn.Workload(counted, [fn.table(sum="age", margin=90)]))))
    clipped = fn.Domain(age=fn.Ordered(0, 85, clip=True))
    (kappa,) = ranges.kappas(fn.plan(fn.Workload(clipped, [fn.table(sum="age", margin=90)])))
    assert kappa.warned


def test_the_warning_of_ranges_by_class_names_the_class_that_is_nearest():
    highs = {"small": 1, "large": 100}
    sales_domain = fn.Domain(
        size=fn.Categorical(list(highs)), sales=fn.Amount(0, fn.ByAttribute("size", highs), step=0.01)
    )
    margins = fn.ByAttribute("size", {"small": 20, "large": 500})
    plan = fn.plan(fn.Workload(sales_domain, [fn.table("size", sum="sales", margin=margins)]))
    assert [k.label for k in ranges.kappas(plan)] == ["small", "large"]
    (warning,) = ranges.warnings(plan)
    assert "5 records at twice 100 behind one number suffice" in english(warning)
